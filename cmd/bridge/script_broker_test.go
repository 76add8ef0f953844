package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

func cmdKfake(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) >= 1, "kfake NAME [user:password] [topic:partitions ...]")
	f := newFreezer()
	opts := []kfake.Opt{kfake.NumBrokers(1), kfake.ListenFn(f.listen)}
	for _, a := range args[1:] {
		name, rest, _ := strings.Cut(a, ":")
		if a == "old" {
			opts = append(opts, kfake.MaxVersions(kversion.V3_5_0()))
			continue
		}
		if name == "poor" {
			// Enough to connect and to see the topic, and for nothing else.
			opts = append(opts, kfake.EnableACLs(), kfake.User("PLAIN", name, rest, kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: "orders",
				Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationDescribe, Allow: true}))
			continue
		}
		if name == "tester" {
			opts = append(opts, kfake.EnableACLs(), kfake.User("PLAIN", name, rest, selftestRights()...))
			continue
		}
		if n, err := strconv.Atoi(rest); err == nil {
			opts = append(opts, kfake.SeedTopics(int32(n), name))
		} else {
			opts = append(opts, kfake.EnableSASL(), kfake.Superuser("PLAIN", name, rest))
		}
	}
	c, err := kfake.NewCluster(opts...)
	ts.Check(err)
	ts.Defer(c.Close)
	ts.Value(clustersKey{}).(clusters)[args[0]] = fakeCluster{c, f}
	ts.Setenv(args[0], c.ListenAddrs()[0])
}

// selftestRights are those that the README says selftest needs.
func selftestRights() (acls []kfake.ACL) {
	for resource, operations := range map[kmsg.ACLResourceType][]kmsg.ACLOperation{
		kmsg.ACLResourceTypeTopic:           {kmsg.ACLOperationCreate, kmsg.ACLOperationDelete, kmsg.ACLOperationRead, kmsg.ACLOperationWrite},
		kmsg.ACLResourceTypeTransactionalId: {kmsg.ACLOperationWrite},
		kmsg.ACLResourceTypeGroup:           {kmsg.ACLOperationRead},
	} {
		for _, o := range operations {
			acls = append(acls, kfake.ACL{Resource: resource, Name: "bridge-selftest-", Pattern: kmsg.ACLResourcePatternTypePrefixed, Operation: o, Allow: true})
		}
	}
	return acls
}

func cmdStopKfake(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "stopkfake NAME")
	ts.Value(clustersKey{}).(clusters)[args[0]].Close()
}

// clusters are a script's own brokers, by name.
type clusters map[string]fakeCluster

type fakeCluster struct {
	*kfake.Cluster
	*freezer
}

// clustersKey is where testscript keeps them.
type clustersKey struct{}

func cmdSilent(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "silent NAME")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	s := &silence{l: l, first: make(chan struct{}), done: make(chan struct{})}
	go s.serve()
	ts.Defer(s.close)
	ts.Value(silencesKey{}).(silences)[args[0]] = s
	ts.Setenv(args[0], l.Addr().String())
}

func cmdAccepted(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "accepted NAME")
	s := ts.Value(silencesKey{}).(silences)[args[0]]
	select {
	case <-s.first:
	case <-time.After(patience):
		ts.Fatalf("nobody connected to %s", args[0])
	}
}

// silences are a script's own, by name.
type silences map[string]*silence

// silencesKey is where testscript keeps them.
type silencesKey struct{}

// silence accepts connections and never says a word.
type silence struct {
	l     net.Listener
	conns []net.Conn    // serve's until done
	first chan struct{} // closed at the first connection
	done  chan struct{}
}

func (s *silence) serve() {
	defer close(s.done)
	for {
		c, err := s.l.Accept()
		if err != nil {
			return
		}
		if s.conns = append(s.conns, c); len(s.conns) == 1 {
			close(s.first)
		}
	}
}

func (s *silence) close() {
	_ = s.l.Close()
	<-s.done
	for _, c := range s.conns {
		_ = c.Close()
	}
}

func cmdRefused(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "refused NAME")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], l.Addr().String())
	ts.Check(l.Close())
}

// client is kgo's own producer or consumer, which shares no code with the bridge's data path. The user of brokers with SASL
// stands in the script's environment.
func client(ts *testscript.TestScript, addr string, opts ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(addr))...)
	ts.Check(err)
	return cl
}

func cmdProduce(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 3, "produce ADDR TOPIC N")
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cl := client(ts, args[0], kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(args[1]))
	defer cl.Close()
	topics, err := kadm.NewClient(cl).ListTopics(ctx, args[1])
	ts.Check(err)
	partitions := len(topics[args[1]].Partitions)
	ts.Check(topics[args[1]].Err)
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Partition: int32(i % partitions), Key: []byte(strconv.Itoa(i)), Value: fmt.Appendf(nil, "value %d", i),
			Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i)), Headers: []kgo.RecordHeader{{Key: "h", Value: nil}, {Key: "h", Value: []byte{1}}}}
		if i%7 == 0 {
			records[i].Key, records[i].Value = nil, nil
		}
	}
	ts.Check(cl.ProduceSync(ctx, records...).FirstErr())
}

// cmdSame compares two topics as a read_committed reader sees them.
func cmdSame(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 3, "same ADDR FROM TO")
	from, to := readCommitted(ts, args[0], args[1]), readCommitted(ts, args[0], args[2])
	if len(from) != len(to) {
		ts.Fatalf("%s has records in %d partitions, %s in %d", args[1], len(from), args[2], len(to))
	}
	for p, want := range from {
		if got := to[p]; !slices.Equal(want, got) {
			i := 0
			for i < min(len(want), len(got)) && want[i] == got[i] {
				i++
			}
			ts.Fatalf("partition %d: %s has %d records, %s %d; the first that differs is number %d", p, args[1], len(want), args[2], len(got), i)
		}
	}
}

func cmdCount(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 3, "count ADDR TOPIC N")
	n := 0
	for _, records := range readCommitted(ts, args[0], args[1]) {
		n += len(records)
	}
	if strconv.Itoa(n) != args[2] {
		ts.Fatalf("%s has %d records, want %s", args[1], n, args[2])
	}
}

// readCommitted reads a topic up to its last stable offsets: the records of each partition, written out with everything in
// them.
func readCommitted(ts *testscript.TestScript, addr, topic string) map[int32][]string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cl := client(ts, addr, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
	ts.Check(err)
	ts.Check(ends.Error())
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	out := map[int32][]string{}
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		ts.Check(fetches.Err())
		for _, r := range fetches.Records() {
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
			if !r.Attrs.IsControl() {
				out[r.Partition] = append(out[r.Partition], describe(r))
			}
		}
	}
	return out
}

func describe(r *kgo.Record) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%#v %#v %d", r.Key, r.Value, r.Timestamp.UnixMilli())
	for _, h := range r.Headers {
		fmt.Fprintf(&b, " %q=%#v", h.Key, h.Value)
	}
	return b.String()
}

func cmdConfigure(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) > 2, "configure ADDR TOPIC KEY=VALUE ...")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cl := client(ts, args[0])
	defer cl.Close()
	var changes []kadm.AlterConfig
	for _, a := range args[2:] {
		key, value, _ := strings.Cut(a, "=")
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: kadm.StringPtr(value)})
	}
	answers, err := kadm.NewClient(cl).AlterTopicConfigs(ctx, changes, args[1])
	ts.Check(err)
	for _, a := range answers {
		ts.Check(a.Err)
	}
}
