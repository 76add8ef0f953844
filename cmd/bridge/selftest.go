package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"kafkabridge/bridge"
	"kafkabridge/configs"
	"kafkabridge/connect"
	"kafkabridge/semantics"
)

type selftestCommand struct {
	Brokers            []string      `placeholder:"HOST:PORT,..." xor:"connection" help:"The cluster, where it needs neither TLS nor a password."`
	Config             string        `short:"c" placeholder:"FILE" xor:"connection" help:"Take the connections, with tls and sasl, of a bridge in this configuration file: its first source and its sink."`
	Bridge             string        `placeholder:"NAME" help:"Which bridge of the file, if it has several."`
	Prefix             string        `default:"bridge-selftest" help:"What the names of topics, group and transactional ids begin with (default: bridge-selftest)."`
	Duration           time.Duration `default:"2m" help:"How long the load lasts, about; the named steps come first, kills at random moments fill the rest (default: 2m)."`
	Records            int           `default:"100000" help:"How many records in that time (default: 100000)."`
	TransactionTimeout time.Duration `default:"10s" help:"The bridge's transaction_timeout; once it stays down for longer (default: 10s)."`
	ReplicationFactor  int16         `default:"-1" help:"Of the topics; -1: the cluster's default."`
	Keep               bool          `help:"Keep the topics."`
	formatFlag
}

const (
	selftestPartitions = 4
	selftestMostRate   = 100_000    // records per second; the load's producer must not be what is tested
	selftestMost       = 20_000_000 // records; the reader keeps one byte for each
	selftestLeast      = time.Second
	cleanupTimeout     = 20 * time.Second
)

func (c *selftestCommand) check() error {
	rate := float64(c.Records) / c.Duration.Seconds()
	switch {
	case len(c.Brokers) == 0 && c.Config == "":
		return &usageError{errors.New("give --brokers HOST:PORT, or -c FILE")}
	case c.Bridge != "" && c.Config == "":
		return &usageError{errors.New("--bridge goes with -c FILE")}
	case c.Duration < selftestLeast || c.Records < 1 || c.Records > selftestMost || rate > selftestMostRate:
		return &usageError{fmt.Errorf("--records=%d --duration=%s: from 1 to %d records, from %s on, and at most %d a second", c.Records, c.Duration, selftestMost, selftestLeast, selftestMostRate)}
	case c.TransactionTimeout < selftestLeast:
		return &usageError{fmt.Errorf("--transaction-timeout=%s: from %s on", c.TransactionTimeout, selftestLeast)}
	case c.ReplicationFactor != -1 && c.ReplicationFactor < 1:
		return &usageError{fmt.Errorf("--replication-factor=%d: from 1 on, or -1 for the cluster's default", c.ReplicationFactor)}
	}
	if err := bridge.CheckName(c.Prefix); err != nil {
		return &usageError{fmt.Errorf("--prefix=%s: %w", c.Prefix, err)}
	}
	return nil
}

// connections are those of the source's and the sink's cluster.
func (c *selftestCommand) connections() (source, sink connect.Options, err error) {
	if c.Config == "" {
		o := connect.Options{Brokers: c.Brokers}
		if err := o.Validate(); err != nil {
			return o, o, &usageError{err}
		}
		return o, o, nil
	}
	file, err := configs.Load(c.Config)
	if err != nil {
		return source, sink, err
	}
	for _, b := range file.Bridges {
		if b.Options.Name == c.Bridge || c.Bridge == "" && len(file.Bridges) == 1 {
			return b.SourceConnections[0], b.SinkConnection, nil
		}
	}
	if c.Bridge == "" {
		return source, sink, &usageError{fmt.Errorf("%s has %d bridges: choose one with --bridge", c.Config, len(file.Bridges))}
	}
	return source, sink, &usageError{fmt.Errorf("%s has no bridge %q", c.Config, c.Bridge)}
}

// Run tries the bridge on a real cluster: it kills this very binary at every named step of the protocol while records flow, and lets a plain reader,
// which shares no code with the bridge, count what became of them.
func (c *selftestCommand) Run(env environment) error {
	if err := c.check(); err != nil {
		return err
	}
	source, sink, err := c.connections()
	if err != nil {
		return err
	}
	s := &selftest{selftestCommand: *c, env: env, progress: env.stdout, source: &selftestCluster{cluster: cluster{o: source}}, sink: &selftestCluster{cluster: cluster{o: sink}}}
	if c.Output == "json" {
		s.progress = env.stderr
	}
	s.name()
	ctx, release := env.stoppable(context.Background())
	defer release()
	err = s.run(ctx)
	if errors.Is(context.Cause(ctx), errStopped) {
		return errStopped
	}
	return err
}

// selftest is one run.
type selftest struct {
	selftestCommand
	env          environment
	progress     io.Writer
	source, sink *selftestCluster
	names        selftestNames
	dir          string // configuration, state and log of the bridge
	log          *os.File
	load         *selftestLoad
	rows         []*selftestRow
}

// selftestNames are what the run makes on the clusters.
type selftestNames struct {
	Bridge string `json:"bridge"` // also the group and the prefix of the transactional ids
	Source string `json:"source_topic"`
	Sink   string `json:"sink_topic"`
	Ledger string `json:"ledger_topic"`
}

func (s *selftest) name() {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails, says its documentation
	base := s.Prefix + "-" + hex.EncodeToString(b[:])
	s.names = selftestNames{Bridge: base, Source: base + "-source", Sink: base + "-sink", Ledger: base + "-ledger"}
}

func (s *selftest) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.progress, format+"\n", args...)
}

// run makes what it needs, and takes it away again whatever happens.
func (s *selftest) run(ctx context.Context) (err error) {
	if s.dir, err = os.MkdirTemp("", "bridge-selftest-"); err != nil {
		return fmt.Errorf("directory for the bridge's state: %w: make room there, or set TMPDIR", err)
	}
	defer func() { err = errors.Join(err, s.clearDirectory(ctx, err)) }()
	if s.log, err = os.Create(s.logPath()); err != nil {
		return fmt.Errorf("log of the bridge: %w: make room there, or set TMPDIR", err)
	}
	defer s.source.close()
	defer s.sink.close()
	if err := s.connect(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.removeTopics()) }()
	if err := s.makeTopics(ctx); err != nil {
		return err
	}
	if err := s.writeConfig(); err != nil {
		return err
	}
	if err := s.validate(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := s.disturb(ctx); err != nil {
		return err
	}
	return s.verdict(ctx, time.Since(began))
}

// verdict reads what arrived, shows it, and is an error unless all is right.
func (s *selftest) verdict(ctx context.Context, took time.Duration) error {
	s.say("reading %s as a read_committed consumer", s.names.Sink)
	found, err := s.read(ctx)
	if err != nil {
		return err
	}
	if err := s.show(found, took); err != nil {
		return err
	}
	if found.wrong() > 0 {
		return fmt.Errorf("selftest: the copy is not exactly once: lost %d, doubled %d, reordered %d, changed %d; first: %s",
			found.Lost, found.Doubled, found.Reordered, found.Changed, found.example)
	}
	return nil
}

// clearDirectory removes the state; where something was wrong the bridge's log stays. After a stop nothing was: what failed did so
// because of it.
func (s *selftest) clearDirectory(ctx context.Context, failed error) error {
	if s.log != nil {
		_ = s.log.Close()
	}
	var class *semantics.Error
	if failed == nil || s.load == nil || ctx.Err() != nil || errors.As(failed, &class) {
		return os.RemoveAll(s.dir)
	}
	s.say("the bridge's log is %s", s.logPath())
	return errors.Join(os.RemoveAll(s.statePath()), os.RemoveAll(s.configPath()))
}
