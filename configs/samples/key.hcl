# Gives records a key, so that all of a customer go to one partition of a sink with partition = "key".
bridge "orders" {
  source "east" {
    brokers = ["127.0.0.1:9092"]
    topics  = ["orders"]
  }

  map "key" {
    from = "string(json.customer.id)"
  }

  sink "west" {
    brokers = ["127.0.0.1:9092"]
    topic   = "orders-copy"
  }
}
