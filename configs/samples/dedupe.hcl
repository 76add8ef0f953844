# Drops what an upstream that is only at-least-once wrote twice within ten minutes of record time.
bridge "orders" {
  source "east" {
    brokers = ["127.0.0.1:9092"]
    topics  = ["orders"]
  }

  map "dedupe" {
    by     = "json.event_id"
    window = "10m"
  }

  sink "west" {
    brokers = ["127.0.0.1:9092"]
    topic   = "orders-copy"
  }
}
