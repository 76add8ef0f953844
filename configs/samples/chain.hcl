# Four maps in a row. The value is parsed once for the first two of them, and once more after the mask has changed it.
bridge "orders" {
  source "east" {
    brokers = ["127.0.0.1:9092"]
    topics  = ["orders"]
  }

  map "filter" {
    when = "json.currency == 'EUR'"
  }

  map "mask" {
    paths = ["user.email"]
    with  = "redact"
  }

  map "key" {
    from = "string(json.user.id)"
  }

  map "headers" {
    set = { origin = "east" }
  }

  sink "west" {
    brokers = ["127.0.0.1:9092"]
    topic   = "orders-copy"
  }
}
