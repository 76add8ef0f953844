# Says to which topic a record goes: one topic for each tenant, and one for what has none.
bridge "orders" {
  source "east" {
    brokers = ["127.0.0.1:9092"]
    topics  = ["orders"]
  }

  map "route" {
    topic = <<-CEL
      "tenant" in headers
        ? "orders." + headers["tenant"]
        : "orders.unknown"
    CEL
  }

  sink "west" {
    brokers = ["127.0.0.1:9092"]
    topic   = "orders-copy"
  }
}
