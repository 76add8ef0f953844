package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kgo"
)

// cmdHang leaves a transaction open, as a program does that is killed in the middle of one.
func cmdHang(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 4, "hang ADDR TRANSACTIONAL_ID TOPIC VALUE")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cl := client(ts, args[0], kgo.TransactionalID(args[1]), kgo.DefaultProduceTopic(args[2]), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer cl.CloseAllowingRebalance() // ends no transaction
	ts.Check(cl.BeginTransaction())
	ts.Check(cl.ProduceSync(ctx, kgo.StringRecord(args[3])).FirstErr())
}

// cmdDisk makes the directory a file system of its own.
func cmdDisk(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "disk DIR")
	dir := ts.MkAbs(args[0])
	ts.Check(os.Mkdir(dir, 0o700))
	ts.Check(mountSmall(dir))
	ts.Defer(func() { ts.Check(unmount(dir)) })
}

// cmdFill takes all that is left of a disk, to the last byte.
func cmdFill(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "fill DIR")
	f, err := os.Create(filler(ts, args[0]))
	ts.Check(err)
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else {
			ts.Check(err)
		}
	}
	ts.Check(f.Close())
}

func filler(ts *testscript.TestScript, dir string) string {
	return filepath.Join(ts.MkAbs(dir), "filler")
}

// cmdFree gives back what fill took.
func cmdFree(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "free DIR")
	ts.Check(os.Remove(filler(ts, args[0])))
}
