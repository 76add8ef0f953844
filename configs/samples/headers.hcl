# Sets, computes, removes and renames headers.
bridge "orders" {
  source "east" {
    brokers = ["127.0.0.1:9092"]
    topics  = ["orders"]
  }

  map "headers" {
    set      = { origin = "east" }
    set_expr = { "event-type" = "json.type", "from-topic" = "topic" }
    remove   = ["debug"]
    rename   = { "x-trace" = "trace" }
  }

  sink "west" {
    brokers = ["127.0.0.1:9092"]
    topic   = "orders-copy"
  }
}
