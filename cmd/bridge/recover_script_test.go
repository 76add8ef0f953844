package main

import (
	"context"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// cmdInitPID sends a blind InitProducerID: what is open on the id is aborted, as its timeout would.
func cmdInitPID(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2, "initpid ADDR TRANSACTIONAL_ID")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cl := client(ts, args[0])
	defer cl.Close()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = &args[1], 60_000, -1, -1
	resp, err := req.RequestWith(ctx, cl)
	ts.Check(err)
	ts.Check(kerr.ErrorForCode(resp.ErrorCode))
}

func cmdDeleteTopic(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2, "deletetopic ADDR TOPIC")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cl := client(ts, args[0])
	defer cl.Close()
	_, err := kadm.NewClient(cl).DeleteTopic(ctx, args[1])
	ts.Check(err)
}

// cmdAppend writes records "value VALUE" with a key of that name to one partition, in this order.
func cmdAppend(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) >= 3, "append ADDR TOPIC VALUE ...")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cl := client(ts, args[0], kgo.DefaultProduceTopic(args[1]), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer cl.Close()
	for _, v := range args[2:] {
		r := &kgo.Record{Key: []byte(v), Value: []byte("value " + v), Timestamp: time.UnixMilli(1_700_000_000_000)}
		ts.Check(cl.ProduceSync(ctx, r).FirstErr())
	}
}
