# Every topic that begins with "orders." from the cluster in the east into the one in the west, exactly once, as
# "east.orders.…". Both clusters want TLS and a password; passwords come from the environment or from a file and are never
# shown.
#
#   EAST_PASSWORD=… WEST_USER=… bridge run -c two-clusters.hcl

bridge "east-to-west" {
  semantic = "EXACTLY_ONCE"

  source "east" {
    brokers        = ["kafka-1.east.example:9093", "kafka-2.east.example:9093"]
    topics_regex   = "orders\\..*"         # the whole name has to match; a \ is written \\
    topics_exclude = [".*\\.internal"]

    tls {}                                 # an empty block: TLS with the system's roots
    sasl {
      mechanism = "SCRAM-SHA-512"
      username  = env("EAST_USER", "bridge")
      password  = env("EAST_PASSWORD")     # byte for byte as it is in the environment: no escaping there
    }
  }

  map "headers" {
    set = { "x-origin" = "east" }
  }

  sink "west" {
    brokers = ["kafka.west.example:9093"]
    topic   = "east.${topic}"              # evaluated once for each source topic

    tls {
      ca_file = "west-ca.pem"              # beside this file
    }
    sasl {
      mechanism = "PLAIN"
      username  = env("WEST_USER")
      password  = file("west-password")    # one line break at the end of the file is not part of the password
    }
  }

  checkpoint {
    path = "/var/lib/bridge/east-to-west"
  }
}
