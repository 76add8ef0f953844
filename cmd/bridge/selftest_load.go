package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/connect"
)

const (
	loadStep    = 20 * time.Millisecond // from one handful of records to the next
	loadTimeout = time.Minute           // for one record to be acknowledged
)

// selftestLoad produces numbered records at an even rate.
type selftestLoad struct {
	cl     *kgo.Client
	rate   float64 // records per second
	began  time.Time
	failed chan error // one: why the load ended
	quit   chan struct{}
	ending sync.Once
	loop   sync.WaitGroup

	mu       sync.Mutex
	produced [selftestPartitions]int
	parts    []loadPart
}

// loadPart is a part of the load: the records from those numbers on were produced while row was under way.
type loadPart struct {
	row  *selftestRow
	from [selftestPartitions]int
}

func (s *selftest) startLoad(ctx context.Context) (*selftestLoad, error) {
	cl, err := connect.Client(s.source.o, nil, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(s.names.Source),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordDeliveryTimeout(loadTimeout))
	if err != nil {
		return nil, fmt.Errorf("producer of the load: %w", err)
	}
	l := &selftestLoad{cl: cl, rate: float64(s.Records) / s.Duration.Seconds(), began: time.Now(), failed: make(chan error, 1), quit: make(chan struct{})}
	l.loop.Go(func() { l.produce(ctx) })
	return l, nil
}

func (l *selftestLoad) produce(ctx context.Context) {
	tick := time.NewTicker(loadStep)
	defer tick.Stop()
	for n := 0; ; {
		for ; float64(n) < l.rate*time.Since(l.began).Seconds() && n < selftestMost; n++ {
			l.cl.Produce(ctx, l.next(n%selftestPartitions), l.acknowledged)
		}
		select {
		case <-tick.C:
		case <-l.quit:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (l *selftestLoad) next(partition int) *kgo.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := loadRecord(partition, l.produced[partition])
	l.produced[partition]++
	return r
}

func (l *selftestLoad) acknowledged(r *kgo.Record, err error) {
	if err != nil {
		l.fail(fmt.Errorf("selftest: the load could not be produced to %s: %w", r.Topic, err))
	}
}

func (l *selftestLoad) fail(err error) {
	select {
	case l.failed <- err:
	default: // the first one is known
	}
}

// loadRecord is the record with that number.
func loadRecord(partition, n int) *kgo.Record {
	return &kgo.Record{
		Partition: int32(partition),
		Key:       fmt.Appendf(nil, "customer-%d", n%997),
		Value:     fmt.Appendf(nil, `{"partition":%d,"number":%d,"text":%q}`, partition, n, strings.Repeat("selftest ", 1+n%10)),
		Headers:   []kgo.RecordHeader{{Key: "number", Value: fmt.Append(nil, n)}},
	}
}

// during says that what is produced from now on counts for row.
func (l *selftestLoad) during(row *selftestRow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parts = append(l.parts, loadPart{row, l.produced})
}

// rowOf is the row that a record counts for.
func (l *selftestLoad) rowOf(partition, n int) *selftestRow {
	i := sort.Search(len(l.parts), func(i int) bool { return l.parts[i].from[partition] > n })
	return l.parts[max(0, i-1)].row
}

func (l *selftestLoad) total() (n int) {
	for _, p := range l.produced {
		n += p
	}
	return n
}

// stop ends the load and waits until all of it is acknowledged.
func (l *selftestLoad) stop(ctx context.Context) error {
	l.end()
	if err := l.cl.Flush(ctx); err != nil {
		return fmt.Errorf("selftest: flush the load: %w", err)
	}
	select {
	case err := <-l.failed:
		return err
	default:
		return nil
	}
}

func (l *selftestLoad) end() {
	l.ending.Do(func() { close(l.quit) })
	l.loop.Wait()
}

// close is for every end; what is not acknowledged then is given up.
func (l *selftestLoad) close() {
	l.ending.Do(func() { close(l.quit) })
	l.cl.Close() // first: the loop may wait for room in the client
	l.loop.Wait()
}

// complete checks that the source holds what was acknowledged, and nothing else: or the brokers are what loses records.
func (s *selftest) complete(ctx context.Context) error {
	ends, err := kadm.NewClient(s.source.cl).ListEndOffsets(ctx, s.names.Source)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("selftest: ends of %s: %w", s.names.Source, err)
	}
	for p, n := range s.load.produced {
		if end, ok := ends.Lookup(s.names.Source, int32(p)); !ok || end.Offset != int64(n) {
			return fmt.Errorf("selftest: %d records of partition %d of %s were acknowledged, and the brokers hold %d: nothing can be said about the bridge", n, p, s.names.Source, end.Offset)
		}
	}
	return nil
}
