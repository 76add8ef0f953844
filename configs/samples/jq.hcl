# Makes a record of each item of an order.
bridge "orders" {
  source "east" {
    brokers = ["127.0.0.1:9092"]
    topics  = ["orders"]
  }

  map "jq" {
    value   = ".id as $id | .items[] | {order: $id, sku, qty}"
    headers = "$headers + {items: (.items | length)}"
  }

  sink "west" {
    brokers = ["127.0.0.1:9092"]
    topic   = "orders-copy"
  }
}
