# Drops records: CEL that is true for those that go on.
bridge "orders" {
  source "east" {
    brokers = ["127.0.0.1:9092"]
    topics  = ["orders"]
  }

  map "filter" {
    when = "value != null && json.status != 'draft' && json.items.exists(i, i.qty > 0)"
  }

  sink "west" {
    brokers = ["127.0.0.1:9092"]
    topic   = "orders-copy"
  }
}
