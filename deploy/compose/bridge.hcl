# orders → orders-copy on the broker of compose.yaml, exactly once.

bridge "orders" {
  semantic = "EXACTLY_ONCE"

  source "kafka" {
    brokers = ["kafka:9092"]
    topics  = ["orders"]
  }

  map "headers" {
    set = { "x-origin" = "compose" }
  }

  sink "kafka" {
    brokers = ["kafka:9092"]
    topic   = "orders-copy"
  }

  checkpoint {
    path     = "/var/lib/bridge/orders"
    interval = "2s"
  }
}

server {
  listen = "0.0.0.0:8080" # inside the container; compose.yaml publishes it on this machine's loopback only
}
