package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// sim is a bridge in a synctest bubble, where time is virtual: its sources are real ones on kfake over a virtual
// network, everything behind them is a simWorld. The bubble itself finds goroutines that are left behind.
type sim struct {
	t       *testing.T
	cluster *kfake.Cluster
	net     *kfake.VirtualNetwork
	cl      *kgo.Client // producer
	w       *simWorld
	o       Options
	maps    Registry
	noStore bool
	fail    func(operation string)
	observe func(Observation)

	mu   sync.Mutex
	made map[string]int // records produced, by topic
	pad  string         // what produce puts behind every value

	b      *Bridge
	cancel context.CancelCauseFunc
	result chan error
	over   time.Time // when Run returned
	quit   chan struct{}
	feeds  sync.WaitGroup
}

// inBubble runs f with a sim whose topic "in" has two partitions; topics adds others.
func inBubble(t *testing.T, f func(s *sim), topics ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &sim{t: t, net: &kfake.VirtualNetwork{}, made: map[string]int{}, maps: testRegistry()}
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(s.net.Listen), kfake.SeedTopics(2, append(topics, "in")...))
		if err != nil {
			t.Fatal(err)
		}
		defer cluster.Close()
		s.cluster = cluster
		s.cl = s.client()
		defer s.cl.Close()
		s.w = newSimWorld(t)
		s.o = Options{
			Name: "b", Semantic: semantics.ExactlyOnce, Workers: 2, Ledger: true, TransactionTimeout: time.Minute,
			Sources:          []SourceOptions{{Name: srcName, Topics: []string{"in"}, ReadCommitted: true}},
			Sink:             sinkOptions(),
			Checkpoint:       CheckpointOptions{Enabled: true, Interval: time.Second, Timeout: 2 * time.Second},
			Restart:          RestartOptions{Backoff: 100 * time.Millisecond, BackoffMax: time.Second},
			TransactionalIDs: []string{"b-0", "b-1"},
		}
		s.quit = make(chan struct{})
		// Also when f ends in the middle: in virtual time whatever goes on goes on for ever, at full speed.
		defer s.end()
		f(s)
	})
}

func (s *sim) end() {
	close(s.quit)
	s.feeds.Wait()
	if s.b != nil {
		s.crash()
	}
}

func (s *sim) client() *kgo.Client {
	s.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers("localhost:9092"), kgo.Dialer(s.net.DialContext), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(10*time.Millisecond), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		s.t.Fatal(err)
	}
	return cl
}

func (s *sim) log() hclog.Logger { return hclog.NewNullLogger() }

// start runs a new incarnation on the same world.
func (s *sim) start() {
	s.t.Helper()
	p := Parts{Writer: s.w, Arbiter: simArbiter{s.w}, Ledger: simLedger{s.w}, Store: s.w, Topics: &fakeSink{}, Maps: s.maps,
		Log: hclog.NewNullLogger(), Incarnation: fmt.Sprint("run", s.w.next()), Failpoint: s.fail, Observe: s.observe,
		Check: func(ctx context.Context) error { return s.w.op(ctx, "check", semantics.Transaction{}) }}
	if s.noStore {
		p.Store = nil
	}
	for range s.o.Sources {
		p.Sources = append(p.Sources, s.client())
	}
	b, err := New(s.o, p)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	s.b, s.cancel, s.result, s.over = b, cancel, make(chan error, 1), time.Time{}
	go s.run(ctx, p.Sources)
}

func (s *sim) run(ctx context.Context, clients []*kgo.Client) {
	err := s.b.Run(ctx)
	s.over = time.Now()
	for _, cl := range clients {
		cl.Close()
	}
	s.result <- err
}

// ended waits for the end of Run.
func (s *sim) ended() error {
	err := <-s.result
	s.b = nil
	return err
}

// crash is kill -9.
func (s *sim) crash() {
	s.cancel(errors.New("killed by the test"))
	_ = s.ended() // what it is does not matter to the dead
}

// stop stops cleanly.
func (s *sim) stop() {
	s.t.Helper()
	s.b.Stop()
	if err := s.ended(); err != nil {
		s.t.Fatalf("stop: %v", err)
	}
}

// after lets virtual time pass.
func (s *sim) after(d time.Duration) { time.Sleep(d) }

// until polls in virtual time.
func (s *sim) until(what string, ok func() bool) {
	s.t.Helper()
	for began := time.Now(); !ok(); s.after(5 * time.Millisecond) {
		if time.Since(began) > 5*time.Minute {
			s.t.Fatalf("not within 5 virtual minutes: %s; status %+v; calls %v", what, s.b.Status(), s.w.tail())
		}
	}
}

func (s *sim) ready() {
	s.t.Helper()
	s.until("ready", func() bool { return s.b.Status().Ready })
}

// produce writes n records to a topic, in turn to its partitions. A record's value is topic/partition/number.
func (s *sim) produce(topic string, n int) {
	s.t.Helper()
	var recs []*kgo.Record
	s.mu.Lock()
	for range n {
		i := s.made[topic]
		s.made[topic]++
		recs = append(recs, &kgo.Record{Topic: topic, Partition: int32(i % 2), Value: fmt.Appendf(nil, "%s/%d/%d%s", topic, i%2, i/2, s.pad)})
	}
	s.mu.Unlock()
	if err := s.cl.ProduceSync(context.Background(), recs...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// feed produces n records every pause until done is closed.
func (s *sim) feed(topic string, n int, pause time.Duration) (stop func()) {
	done := make(chan struct{})
	var fed sync.WaitGroup
	s.feeds.Add(1)
	fed.Go(func() {
		defer s.feeds.Done()
		for {
			select {
			case <-done:
				return
			case <-s.quit:
				return
			case <-time.After(pause):
				s.produce(topic, n)
			}
		}
	})
	return func() { close(done); fed.Wait() }
}

// once: a reader of the sink sees every record of the topics once, in order per partition. suffix is what the map adds.
func (s *sim) once(suffix func(i int) string, topics ...string) {
	s.t.Helper()
	seen := s.w.seen()
	for _, topic := range topics {
		s.mu.Lock()
		made := s.made[topic]
		s.mu.Unlock()
		for p := range 2 {
			var want, got []string
			for i := range (made + 1 - p) / 2 {
				want = append(want, fmt.Sprintf("%s/%d/%d%s", topic, p, i, suffix(i)))
			}
			prefix := fmt.Appendf(nil, "%s/%d/", topic, p)
			for _, v := range seen {
				if bytes.HasPrefix([]byte(v), prefix) {
					got = append(got, v)
				}
			}
			if !slices.Equal(got, want) {
				s.t.Errorf("%s: %d records, want %d: got %v, want %v", prefix, len(got), len(want), short(got), short(want))
			}
		}
	}
}

func plainly(int) string { return "" }

// simWorld is sink, coordinator, ledger and state directory. It outlives the bridges that run on it, and complains
// when one of them breaks a rule: a transaction that is committed without a durable checkpoint (I1), a ledger record whose positions
// are not exactly the records of the transactions so far (I5), an abort of what is proposed.
type simWorld struct {
	t     *testing.T
	began time.Time

	mu          sync.Mutex
	runs        int
	calls       []simCall
	hooks       map[string]func(ctx context.Context) error // before the operation has its effect
	ids         map[string]semantics.Transaction           // what each id holds
	open        map[semantics.Transaction]*simTx
	current     semantics.Transaction
	failed      chan struct{}
	sending     bool // since Begin, until Abandon
	failure     error
	values      []string
	counted     map[string]int64 // records that are visible, by source topic/partition
	ledger      []semantics.LedgerRecord
	checkpoints map[semantics.Epoch]semantics.Checkpoint
	aborts      map[semantics.Transaction]int
	committed   map[semantics.Transaction]bool
}

type simCall struct {
	op string
	tx semantics.Transaction
	at time.Duration
}

type simTx struct {
	values  []string
	counted map[string]int64
	record  *semantics.LedgerRecord
}

func newSimWorld(t *testing.T) *simWorld {
	return &simWorld{t: t, began: time.Now(), hooks: map[string]func(context.Context) error{}, ids: map[string]semantics.Transaction{},
		open: map[semantics.Transaction]*simTx{}, counted: map[string]int64{}, checkpoints: map[semantics.Epoch]semantics.Checkpoint{},
		aborts: map[semantics.Transaction]int{}, committed: map[semantics.Transaction]bool{}, failed: make(chan struct{})}
}

func (w *simWorld) next() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs++
	return w.runs
}

// on sets what an operation does before its effect; nil: nothing.
func (w *simWorld) on(op string, f func(ctx context.Context) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hooks[op] = f
}

func (w *simWorld) op(ctx context.Context, name string, tx semantics.Transaction) error {
	w.mu.Lock()
	w.calls = append(w.calls, simCall{name, tx, time.Since(w.began)})
	f := w.hooks[name]
	w.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(ctx)
}

// times are when an operation began.
func (w *simWorld) times(op string) (at []time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		if c.op == op {
			at = append(at, c.at)
		}
	}
	return at
}

func (w *simWorld) count(op string) int { return len(w.times(op)) }

func (w *simWorld) tail() []simCall {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls[max(0, len(w.calls)-30):])
}

func (w *simWorld) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.values)
}

// checkpoint is the stored one of an epoch; zero when there is none.
func (w *simWorld) checkpoint(n semantics.Epoch) semantics.Checkpoint {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.checkpoints[n]
}

// aborted says how often each transaction was aborted on request.
func (w *simWorld) aborted() map[semantics.Transaction]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.aborts)
}

// forget is a state directory that was lost.
func (w *simWorld) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.checkpoints)
}

func (w *simWorld) now() time.Duration { return time.Since(w.began) }

// ---- Writer ----

func (w *simWorld) Begin(ctx context.Context, tx semantics.Transaction) error {
	if err := w.op(ctx, "begin", tx); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current, w.failure, w.failed, w.sending = tx, nil, make(chan struct{}), true
	w.open[tx] = &simTx{counted: map[string]int64{}}
	return nil
}

func (w *simWorld) Write(ctx context.Context, b batch.Outbound) error {
	defer b.Release()
	if err := w.op(ctx, "write", semantics.Transaction{}); err != nil {
		return err
	}
	_, records := decodeSink(w.t, b.Raw)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure != nil {
		return w.failure
	}
	tx := w.open[w.current]
	if tx == nil {
		return nil // fenced: whatever is written is thrown away
	}
	for _, r := range records {
		tx.values = append(tx.values, string(r.Value))
	}
	tx.counted[fmt.Sprintf("%s/%d", b.SourceTopic, b.SourcePartition)] += b.LastOffset - b.FirstOffset + 1
	if w.current.IsZero() {
		w.show(tx)
		w.open[w.current] = &simTx{counted: map[string]int64{}}
	}
	return nil
}

// show makes a transaction's records visible. The caller holds mu.
func (w *simWorld) show(tx *simTx) {
	w.values = append(w.values, tx.values...)
	for k, n := range tx.counted {
		w.counted[k] += n
	}
}

func (w *simWorld) Flush(ctx context.Context) (bool, error) {
	w.mu.Lock()
	tx := w.current
	w.mu.Unlock()
	if err := w.op(ctx, "flush", tx); err != nil {
		return false, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open[w.current] != nil && len(w.open[w.current].values) > 0 || w.current.IsZero(), w.failure
}

func (w *simWorld) Abandon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sending = false
}

func (w *simWorld) Failed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// breaks makes a batch fail that was written long ago.
func (w *simWorld) breaks(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failure = err
	close(w.failed)
}

// ---- Arbiter ----

type simArbiter struct{ w *simWorld }

func (a simArbiter) Fence(ctx context.Context, id string) (semantics.Transaction, error) {
	if err := a.w.op(ctx, "fence", semantics.Transaction{ID: id}); err != nil {
		return semantics.Transaction{}, err
	}
	return a.w.bump(id), nil
}

// bump throws away what is open on the id.
func (w *simWorld) bump(id string) semantics.Transaction {
	w.mu.Lock()
	defer w.mu.Unlock()
	tx, ok := w.ids[id]
	if !ok {
		tx = semantics.Transaction{ID: id, ProducerID: int64(100 + len(w.ids)), ProducerEpoch: -1, EndTxnVersion: 5}
	}
	delete(w.open, tx)
	tx.ProducerEpoch++
	w.ids[id] = tx
	return tx
}

func (a simArbiter) Refresh(ctx context.Context, tx semantics.Transaction) (semantics.Transaction, error) {
	if err := a.w.op(ctx, "refresh", tx); err != nil {
		return tx, err
	}
	return a.w.bump(tx.ID), nil
}

func (a simArbiter) End(ctx context.Context, tx semantics.Transaction, commit bool) (semantics.Outcome, semantics.Transaction, error) {
	w := a.w
	name := map[bool]string{true: "commit", false: "abort"}[commit]
	if err := w.op(ctx, name, tx); err != nil {
		return 0, tx, &semantics.Error{Class: semantics.Unknown, Op: "end transaction", Err: err}
	}
	w.mu.Lock()
	held, open := w.ids[tx.ID], w.open[tx]
	if open == nil || held != tx {
		w.mu.Unlock()
		switch { // EndTxn v5 by what happened to the transaction at epoch E, measured on a broker
		case held == next(tx) && w.committed[tx] == commit:
			return map[bool]semantics.Outcome{true: semantics.OutcomeCommitted, false: semantics.OutcomeAborted}[commit], held, nil
		case held == next(tx):
			return semantics.OutcomeAborted, held, nil
		default:
			return semantics.OutcomeAmbiguous, tx, nil
		}
	}
	if commit {
		w.judge(tx, open)
		w.show(open)
		w.committed[tx] = true
		if open.record != nil {
			w.ledger = append(w.ledger, *open.record)
		}
	} else {
		w.aborts[tx]++
		if w.sending && w.current.Same(tx) {
			w.t.Errorf("%s was aborted while the writer may still send in it", tx)
		}
		for _, c := range w.checkpoints {
			if c.Transaction.Same(tx) {
				w.t.Errorf("%s was aborted although checkpoint %d names it", tx, c.Epoch)
			}
		}
	}
	w.mu.Unlock()
	w.bump(tx.ID)
	return map[bool]semantics.Outcome{true: semantics.OutcomeCommitted, false: semantics.OutcomeAborted}[commit], next(tx), nil
}

func next(tx semantics.Transaction) semantics.Transaction {
	tx.ProducerEpoch++
	return tx
}

// judge looks at a transaction that is being committed. The caller holds mu.
func (w *simWorld) judge(tx semantics.Transaction, open *simTx) {
	if open.record == nil || open.record.Kind != semantics.LedgerEpoch {
		return
	}
	durable := false
	for _, c := range w.checkpoints {
		durable = durable || c.Transaction.Same(tx) && c.Positions.Equal(open.record.Positions)
	}
	if !durable {
		w.t.Errorf("I1: %s is committed and its checkpoint is not durable", tx)
	}
	for st, tp := range open.record.Positions {
		for p, at := range tp.Partitions {
			k := fmt.Sprintf("%s/%d", st.Topic, p)
			if n := w.counted[k] + open.counted[k]; n != at.Offset {
				w.t.Errorf("I5: epoch %d: %s stands at %d, its transactions hold %d records", open.record.Epoch, k, at.Offset, n)
			}
		}
	}
}

func (a simArbiter) StartedAt(context.Context, semantics.Transaction) int64 { return 1 }

// ---- Ledger ----

type simLedger struct{ w *simWorld }

func (l simLedger) Read(ctx context.Context, settled bool, _ func(string)) (semantics.LedgerEnd, error) {
	if err := l.w.op(ctx, map[bool]string{true: "read", false: "look"}[settled], semantics.Transaction{}); err != nil {
		return semantics.LedgerEnd{}, err
	}
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	end := semantics.LedgerEnd{TopicID: semantics.TopicID{1}, Offset: -1}
	if n := len(l.w.ledger); n > 0 {
		end.Found, end.Record, end.Offset = true, l.w.ledger[n-1], int64(2*n-2)
	}
	return end, nil
}

func (l simLedger) Append(ctx context.Context, tx semantics.Transaction, rec semantics.LedgerRecord) (int64, error) {
	if err := l.w.op(ctx, map[bool]string{true: "append", false: "claim"}[rec.Kind == semantics.LedgerEpoch], tx); err != nil {
		return 0, err
	}
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.w.open[tx] == nil {
		return 0, &semantics.Error{Class: semantics.Unknown, Fenced: true, Op: "append", Err: errors.New("fenced")}
	}
	l.w.open[tx].record = &rec
	return int64(2 * len(l.w.ledger)), nil
}

// ---- Store ----

func (w *simWorld) Load() ([]semantics.Checkpoint, error) {
	if err := w.op(context.Background(), "load", semantics.Transaction{}); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []semantics.Checkpoint
	for _, n := range slices.Sorted(maps.Keys(w.checkpoints)) {
		all = append(all, w.checkpoints[n])
	}
	return all, nil
}

func (w *simWorld) Save(c semantics.Checkpoint) error {
	if err := w.op(context.Background(), "save", c.Transaction); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkpoints[c.Epoch] = c
	return nil
}

func (w *simWorld) Decide(n semantics.Epoch, status semantics.Status) error {
	if err := w.op(context.Background(), "decide", semantics.Transaction{}); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.checkpoints[n]
	c.Status = status
	w.checkpoints[n] = c
	return nil
}

func (w *simWorld) Drop(epochs ...semantics.Epoch) error {
	if err := w.op(context.Background(), "drop", semantics.Transaction{}); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range epochs {
		delete(w.checkpoints, n)
	}
	return nil
}

// hang waits until ctx ends.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// takes lets an operation take some time.
func takes(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		if !sleep(ctx, d) {
			return context.Cause(ctx)
		}
		return nil
	}
}
