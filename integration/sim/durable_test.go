package sim

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// commitChecks is how often beforeCommit looks at the disk: one time in so many, because opening a copy of it costs as much as an epoch.
const commitChecks = 5

// durably makes a check of I1: when a process asks for a commit, a power cut in that very moment leaves a checkpoint that names the
// transaction.
func (p *process) durably(r *rand.Rand) func(*kmsg.EndTxnRequest) {
	var n atomic.Uint64
	skip := r.Uint64N(commitChecks)
	seen := map[txnKey]struct{}{}
	return func(end *kmsg.EndTxnRequest) {
		k := keyOf(end)
		p.mu.Lock()
		_, again := seen[k]
		seen[k] = struct{}{}
		p.mu.Unlock()
		if again || p.w.watch.isClaim(k) || (n.Add(1)+skip)%commitChecks != 0 {
			return
		}
		if err := holds(p.disk.CrashClone(vfs.CrashCloneCfg{}), k); err != nil {
			p.w.errorf("I1: %s asks for the commit of %s, but a power cut now would leave no checkpoint of it: %v", p.name, k, err)
		}
	}
}

func (w *watch) isClaim(k txnKey) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.txn(k).claim()
}

// holds looks for a checkpoint of a transaction in a state directory, as snapshot/FORMAT.md describes it.
func holds(disk vfs.FS, k txnKey) error {
	db, err := pebble.Open("state", &pebble.Options{FS: disk, ReadOnly: true, Logger: silent{}})
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte("c"), UpperBound: []byte("d")})
	if err != nil {
		return err
	}
	defer func() { _ = it.Close() }()
	want := append(binary.AppendUvarint(nil, uint64(len(k.id))), k.id...)
	want = binary.AppendVarint(binary.AppendVarint(want, k.pid), int64(k.epoch))
	for it.First(); it.Valid(); it.Next() {
		// format, status, semantic, flags, epoch, incarnation, then the transaction, then the one it follows
		v := it.Value()[4:]
		_, n := binary.Varint(v)
		v = v[n:]
		size, n := binary.Uvarint(v)
		if bytes.HasPrefix(v[n+int(size):], want) {
			return nil
		}
	}
	if err := it.Error(); err != nil {
		return err
	}
	return errNoCheckpoint
}

type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(string, ...any) {}
