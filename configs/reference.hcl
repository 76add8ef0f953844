# Every block and attribute. Each attribute that is written here with a plain value has the value that it also has when
# it is left out, except where its comment says "required" or "default:". One file is one daemon; it may hold several
# bridges, as long as they share no state directory and no transactional ids.
#
# Durations are strings with a unit ("500ms", "5s", "1h30m"). Sizes are strings with a unit ("1MiB"; units B, KiB, MiB, GiB),
# or a number of bytes. Words are taken exactly as written here: a slip is an error, never something weaker.
#
# Functions: env("NAME") and env("NAME", "default") (a variable that is set to nothing is set), and file("path") (relative
# to this file, without the line break at its end). What comes from them is taken byte for byte, and never appears in
# logs, status or error texts. Everywhere else in quotes ${ begins a template and %{ a directive: write $${ and %%{ for
# the characters, and \\ for a backslash.

bridge "orders" {                         # [A-Za-z0-9._-]+ ; owns the state, the transactional ids and the ledger
  semantic = "EXACTLY_ONCE"               # NONE | AT_LEAST_ONCE | EXACTLY_ONCE; default: AT_LEAST_ONCE
  workers  = 0                            # map tasks; 0 = GOMAXPROCS

  source "east" {                         # one or more; positions are kept by this name
    brokers         = ["127.0.0.1:9092"]  # required; some brokers of the cluster, port 9092 when there is none
    topics          = ["orders"]          # required, or topics_regex instead
    # topics_regex   = "orders\\..*"      # topics whose whole name matches; internal topics and the bridge's own never do
    # topics_exclude = [".*\\.test"]      # with topics_regex: not these
    start           = "earliest"          # where nothing is known yet: earliest | latest | committed (of group; earliest
                                          # where it has none) | an RFC 3339 time such as "2026-01-31T12:00:00Z"
    start_offsets   = {}                  # { "orders/0" = 42 } wins over start for that partition
    isolation_level = "read_committed"    # or read_uncommitted: also what is in open and aborted transactions
    group           = "orders"            # positions are published here after each decided epoch, for lag tools; default: the bridge's name
    on_gap          = "fail"              # retention, truncation or a recreated topic took what was still to be read: fail (exit 3) | skip (and count)
    discover        = "1m"                # how often to look for new topics (regex) and new partitions
    commit_interval = "5s"                # only when there is no checkpoint block: how often offsets are committed to group (of several sources: the shortest)
    fetch_max_bytes = "50MiB"             # of one fetch answer

    # tls {                               # leave the block out: plain text; an empty one: TLS with the system's roots
    #   ca_file              = "ca.pem"   # whom to trust instead of the system's roots; paths are relative to this file
    #   cert_file            = "me.pem"   # with key_file: the client's certificate (mTLS)
    #   key_file             = "me.key"
    #   server_name          = "kafka"    # expected in the brokers' certificates; default: the broker's host
    #   insecure_skip_verify = false      # true: anybody can pose as the broker
    # }
    # sasl {                              # leave the block out: no authentication
    #   mechanism     = "SCRAM-SHA-512"   # required: PLAIN | SCRAM-SHA-256 | SCRAM-SHA-512 | OAUTHBEARER | AWS_MSK_IAM (with tls)
    #   username      = "bridge"          # required with PLAIN and SCRAM
    #   password      = env("PASSWORD")   # required with PLAIN and SCRAM; a file("path") is read again for each new connection
    #   token_url     = "https://login.example/token" # OAUTHBEARER: where a token is asked for with client credentials
    #   client_id     = "bridge"          # OAUTHBEARER
    #   client_secret = file("secret")    # OAUTHBEARER
    #   token_file    = "token"           # OAUTHBEARER, in place of the three above: a token that others renew (Kubernetes); read again for each new connection
    #   profile       = "default"         # AWS_MSK_IAM: of AWS's shared files; default: AWS's own order, from the environment to the instance's role
    # }
  }

  # Maps: zero or more, in order; each kind has its own attributes, and may be there more than once. CEL expressions see key, value
  # (text or null), json (the parsed value), headers (last value by name), source, topic, partition, offset, timestamp; they and jq
  # programs are checked when this file is read. More on each: package maps and its README section.

  map "filter" {                          # drops records
    when     = "topic != \"audit\""       # required; CEL: true for those that go on
    on_error = "fail"                     # of every kind; a record for which the map fails: fail (exit 3) | skip (and count) | dead_letter
  }

  map "dedupe" {                          # drops what went on before, per source partition; its state is in the checkpoint
    by     = "[key, offset]"              # required; CEL: what identifies a record; null is never dropped
    window = "10m"                        # required, or records: how far back, by the records' own timestamps
    limit  = 100000                       # identities in the window, per partition; one more fails
    #   records = 1000                    # instead of window and limit: how many records back
  }

  map "mask" {                            # replaces parts of JSON values, and leaves the rest byte for byte
    paths = ["user.email", "items[].card"] # required; names with dots in quotes: 'a.b'.c
    with  = "redact"                      # required; redact ("***") | sha256 | hmac-sha256
    #   secret = env("MASK_SECRET")       # required with hmac-sha256, and only there
  }

  map "jq" {                              # reshapes JSON values; programs see the value, $key, $headers, $topic, $offset, …
    value   = "."                         # required, or key or headers: each output is a record, no output drops it; not written: the value stays
    #   key     = ".id"                   # one output: a string, null, or JSON; default: the key stays
    #   headers = "$headers + {a: .b}"    # one output: an object that replaces all headers; default: they stay
  }

  map "key" {
    from = "key"                          # required; CEL: the new key: text, bytes, or null
  }

  map "timestamp" {
    from = "timestamp"                    # required; CEL: the new timestamp, or milliseconds since 1970
  }

  map "headers" {
    set      = { "x-origin" = "east" }    # key → value; replaces all of that key; default: {}
    set_expr = {}                         # key → CEL: the value: text, bytes, or null
    remove   = []                         # keys
    rename   = {}                         # old key → new key
  }

  map "route" {
    topic = "topic"                       # required; CEL: the sink topic; "" is the sink block's
  }

  sink "west" {                           # exactly one
    brokers             = ["127.0.0.1:9092"] # required
    topic               = "orders-copy"   # required; may use ${topic}, the source's topic: "west.${topic}"; evaluated once per source topic
    partition           = "source"        # source: same number | key: Java-compatible murmur2 of the key (records without a key keep the source's number modulo the count)
    create_topics       = true            # missing topics: same partition count as the source, the cluster's default replication
    compression         = "source"        # source: as each source batch is | none | gzip | snappy | lz4 | zstd (re-encodes what is not in it)
    linger              = "5ms"           # for batches that are encoded here; untouched ones do not wait
    max_message_bytes   = "1MiB"          # the largest batch that is encoded here (a single record may need a larger one, up to the topic's limit)
    transactional_id    = "orders"        # prefix of the transactional ids, which are this with -0 and -1; default: the bridge's name
    transaction_timeout = "15m"           # the broker aborts what is open for longer; at most its transaction.max.timeout.ms
    ledger              = true            # false: the state directory is the only truth, and its loss is not noticed
    ledger_topic        = "orders.ledger" # compacted, on the sink's cluster; default: "<bridge>.ledger"
    on_timeout          = "replay"        # prepared transaction found aborted: replay | fail (exit 3)
    on_reject           = "fail"          # a record that the sink refuses (too large, its timestamp, no key for a compacted topic, a topic that a
                                          # map named and that is not there): fail (exit 3) | dead_letter
    # dead_letter {                       # needed where a policy is "dead_letter"
    #   topic = "orders-dead"             # required; the source record as it was, with headers that say why; keeps the source's partition
    # }                                   # number modulo its count; missing: made with the partitions of the largest source topic, kept for ever

    # tls { }                             # as in source
    # sasl { }                            # as in source
  }

  checkpoint {                            # leave the block out: no checkpoints; only NONE and AT_LEAST_ONCE are then accepted
    path               = "/var/lib/bridge/orders" # relative to this file; default: /var/lib/bridge/<bridge>
    interval           = "5s"             # from one barrier to the next
    max_records        = 0                # also start a barrier after so many records; 0 = off
    timeout            = "10s"            # a barrier that is not flushed by then fails
    min_pause          = "0s"             # from the end of one checkpoint to the next barrier, at least
    max_concurrent     = 1                # 1 is the only accepted value
    tolerable_failures = 0                # barriers in a row that may fail before the epoch fails
    retain             = 3                # checkpoints that are kept; the last decided one and newer ones always are
  }

  restart {                               # after a failure that may pass; fatal ones exit at once
    backoff     = "500ms"                 # doubled each time, up to
    backoff_max = "30s"
    attempts    = 0                       # 0 = for ever; otherwise exit 1 after so many
  }
}

server {
  listen = "127.0.0.1:8080"               # HTTP: health, metrics, status, page, log level; "" turns it off
  #   token = file("token")               # bearer token that /status, /metrics and /log want (a file is read again when it changes); never wanted
                                          # for /healthz, /readyz (which tells the reason only to those who send it), /, /page.css and /page.js
  # tls {                                 # leave the block out: plain text; the files are read again when they change
  #   cert_file      = "server.pem"       # required, with all certificates between it and its authority
  #   key_file       = "server.key"       # required
  #   client_ca_file = "clients.pem"      # mTLS: what wants the token also wants a client certificate of this authority
  # }
}

log {
  level  = "info"                         # trace | debug | info | warn | error; SIGHUP reads it again, and nothing else; PUT /log?level=debug sets it
  format = "text"                         # text | json
}

tests {                                   # what `bridge test` runs, without Kafka; also in files beside this one that end in _test.hcl
  test "an order from the east" {         # the name is free
    bridge = "orders"                     # default: the file's only bridge
    input {                               # one or more; they go through the maps in this order
      source    = "east"                  # default: the first source
      topic     = "orders"                # default: the source's first topic
      partition = 0
      offset    = 0                       # default: one more than the partition's input before
      timestamp = "2026-01-02T03:04:05Z"  # or milliseconds since 1970, the default 0
      key       = "k"                     # default: null
      value     = { id = 7 }              # a string as it is; null; anything else as JSON
      headers   = {}
      #   fails = "text"                    # a map is to fail for it, with an error that contains this
    }
    output {                              # what comes out, in order and no more; only what is written here is compared
      topic     = "orders"                # as the map "route" above says
      timestamp = "2026-01-02T03:04:05Z"
      key       = "k"
      value     = { id = 7 }              # compared as JSON; a string byte for byte
      headers   = { "x-origin" = "east" }
    }
  }
}
