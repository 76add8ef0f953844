# The least that makes a bridge: copy a topic, at least once, within one cluster. All the rest has defaults; see
# reference.hcl. Without a checkpoint block progress is kept as committed offsets of the consumer group "copy".

bridge "copy" {
  source "in" {
    brokers = ["127.0.0.1:9092"]
    topics  = ["orders"]
  }

  sink "out" {
    brokers = ["127.0.0.1:9092"]
    topic   = "orders-copy"
  }
}
