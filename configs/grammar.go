package configs

import "github.com/hashicorp/hcl/v2"

// The grammar of the file, block by block. Attributes stay unevaluated here, with their positions: the translation
// evaluates them, so that every message can point at them, and so that sink.topic can be evaluated once per topic.
// Blocks that may be there once only are pointers, and HCL refuses a second one; sink and checkpoint are
// lists, because HCL ignores all of a block that is there twice, and then they would seem to be missing.

type fileGrammar struct {
	Bridges []bridgeGrammar `hcl:"bridge,block"`
	Server  *serverGrammar  `hcl:"server,block"`
	Log     *logGrammar     `hcl:"log,block"`
	Tests   []testsGrammar  `hcl:"tests,block"`
}

type serverGrammar struct {
	Listen *hcl.Attribute    `hcl:"listen,optional"`
	Token  *hcl.Attribute    `hcl:"token,optional"`
	TLS    *serverTLSGrammar `hcl:"tls,block"`
}

type serverTLSGrammar struct {
	DefRange hcl.Range `hcl:",def_range"`

	CertFile     *hcl.Attribute `hcl:"cert_file,optional"`
	KeyFile      *hcl.Attribute `hcl:"key_file,optional"`
	ClientCAFile *hcl.Attribute `hcl:"client_ca_file,optional"`
}

type logGrammar struct {
	Level  *hcl.Attribute `hcl:"level,optional"`
	Format *hcl.Attribute `hcl:"format,optional"`
}

type bridgeGrammar struct {
	Name      string    `hcl:"name,label"`
	NameRange hcl.Range `hcl:"name,label_range"`
	DefRange  hcl.Range `hcl:",def_range"`

	Semantic    *hcl.Attribute      `hcl:"semantic,optional"`
	Workers     *hcl.Attribute      `hcl:"workers,optional"`
	Sources     []sourceGrammar     `hcl:"source,block"`
	Maps        []mapGrammar        `hcl:"map,block"`
	Sinks       []sinkGrammar       `hcl:"sink,block"`
	Checkpoints []checkpointGrammar `hcl:"checkpoint,block"`
	Restart     *restartGrammar     `hcl:"restart,block"`
}

type sourceGrammar struct {
	Name      string    `hcl:"name,label"`
	NameRange hcl.Range `hcl:"name,label_range"`
	DefRange  hcl.Range `hcl:",def_range"`

	Brokers        *hcl.Attribute `hcl:"brokers,optional"`
	Topics         *hcl.Attribute `hcl:"topics,optional"`
	TopicsRegex    *hcl.Attribute `hcl:"topics_regex,optional"`
	TopicsExclude  *hcl.Attribute `hcl:"topics_exclude,optional"`
	Start          *hcl.Attribute `hcl:"start,optional"`
	StartOffsets   *hcl.Attribute `hcl:"start_offsets,optional"`
	IsolationLevel *hcl.Attribute `hcl:"isolation_level,optional"`
	Group          *hcl.Attribute `hcl:"group,optional"`
	OnGap          *hcl.Attribute `hcl:"on_gap,optional"`
	Discover       *hcl.Attribute `hcl:"discover,optional"`
	CommitInterval *hcl.Attribute `hcl:"commit_interval,optional"`
	FetchMaxBytes  *hcl.Attribute `hcl:"fetch_max_bytes,optional"`
	TLS            *tlsGrammar    `hcl:"tls,block"`
	SASL           *saslGrammar   `hcl:"sasl,block"`
}

// mapGrammar keeps the body: each kind has its own attributes, see mapkinds.go.
type mapGrammar struct {
	Kind      string    `hcl:"kind,label"`
	KindRange hcl.Range `hcl:"kind,label_range"`
	DefRange  hcl.Range `hcl:",def_range"`

	OnError *hcl.Attribute `hcl:"on_error,optional"` // of every kind
	Body    hcl.Body       `hcl:",remain"`
}

type sinkGrammar struct {
	Name      string    `hcl:"name,label"`
	NameRange hcl.Range `hcl:"name,label_range"`
	DefRange  hcl.Range `hcl:",def_range"`

	Brokers            *hcl.Attribute     `hcl:"brokers,optional"`
	Topic              *hcl.Attribute     `hcl:"topic,optional"`
	Partition          *hcl.Attribute     `hcl:"partition,optional"`
	CreateTopics       *hcl.Attribute     `hcl:"create_topics,optional"`
	Compression        *hcl.Attribute     `hcl:"compression,optional"`
	Linger             *hcl.Attribute     `hcl:"linger,optional"`
	MaxMessageBytes    *hcl.Attribute     `hcl:"max_message_bytes,optional"`
	TransactionalID    *hcl.Attribute     `hcl:"transactional_id,optional"`
	TransactionTimeout *hcl.Attribute     `hcl:"transaction_timeout,optional"`
	Ledger             *hcl.Attribute     `hcl:"ledger,optional"`
	LedgerTopic        *hcl.Attribute     `hcl:"ledger_topic,optional"`
	OnTimeout          *hcl.Attribute     `hcl:"on_timeout,optional"`
	OnReject           *hcl.Attribute     `hcl:"on_reject,optional"`
	DeadLetter         *deadLetterGrammar `hcl:"dead_letter,block"`
	TLS                *tlsGrammar        `hcl:"tls,block"`
	SASL               *saslGrammar       `hcl:"sasl,block"`
}

type deadLetterGrammar struct {
	DefRange hcl.Range `hcl:",def_range"`

	Topic *hcl.Attribute `hcl:"topic,optional"`
}

type tlsGrammar struct {
	DefRange hcl.Range `hcl:",def_range"`

	CAFile             *hcl.Attribute `hcl:"ca_file,optional"`
	CertFile           *hcl.Attribute `hcl:"cert_file,optional"`
	KeyFile            *hcl.Attribute `hcl:"key_file,optional"`
	ServerName         *hcl.Attribute `hcl:"server_name,optional"`
	InsecureSkipVerify *hcl.Attribute `hcl:"insecure_skip_verify,optional"`
}

type saslGrammar struct {
	DefRange hcl.Range `hcl:",def_range"`

	Mechanism    *hcl.Attribute `hcl:"mechanism,optional"`
	Username     *hcl.Attribute `hcl:"username,optional"`
	Password     *hcl.Attribute `hcl:"password,optional"`
	TokenURL     *hcl.Attribute `hcl:"token_url,optional"`
	ClientID     *hcl.Attribute `hcl:"client_id,optional"`
	ClientSecret *hcl.Attribute `hcl:"client_secret,optional"`
	TokenFile    *hcl.Attribute `hcl:"token_file,optional"`
	Profile      *hcl.Attribute `hcl:"profile,optional"`
}

type checkpointGrammar struct {
	DefRange hcl.Range `hcl:",def_range"`

	Path              *hcl.Attribute `hcl:"path,optional"`
	Interval          *hcl.Attribute `hcl:"interval,optional"`
	MaxRecords        *hcl.Attribute `hcl:"max_records,optional"`
	Timeout           *hcl.Attribute `hcl:"timeout,optional"`
	MinPause          *hcl.Attribute `hcl:"min_pause,optional"`
	MaxConcurrent     *hcl.Attribute `hcl:"max_concurrent,optional"`
	TolerableFailures *hcl.Attribute `hcl:"tolerable_failures,optional"`
	Retain            *hcl.Attribute `hcl:"retain,optional"`
}

type restartGrammar struct {
	Backoff    *hcl.Attribute `hcl:"backoff,optional"`
	BackoffMax *hcl.Attribute `hcl:"backoff_max,optional"`
	Attempts   *hcl.Attribute `hcl:"attempts,optional"`
}
