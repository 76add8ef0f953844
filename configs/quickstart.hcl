# For the quick start of README.md: one broker on this machine, orders → orders-copy, exactly once.

bridge "quickstart" {
  semantic = "EXACTLY_ONCE"

  source "local" {
    brokers = ["127.0.0.1:9092"]
    topics  = ["orders"]
  }

  sink "local" {
    brokers = ["127.0.0.1:9092"]
    topic   = "orders-copy" # made when it is missing, with as many partitions as orders has
  }

  checkpoint {
    path     = "./state" # beside this file
    interval = "1s"
  }
}
