# Takes the timestamp from the value, where that has one.
bridge "orders" {
  source "east" {
    brokers = ["127.0.0.1:9092"]
    topics  = ["orders"]
  }

  map "timestamp" {
    from = "has(json.created) ? timestamp(json.created) : timestamp"
  }

  sink "west" {
    brokers = ["127.0.0.1:9092"]
    topic   = "orders-copy"
  }
}
