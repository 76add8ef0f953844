// Package txn is where output becomes visible: the transactional batch producer, the transaction coordinator (fence,
// settle, end), the ledger topic, the sink's topics, and what every Kafka error means.
//
//	sink, err := txn.New(opts, client, log)
//	err = sink.Check(ctx)                                 // brokers new enough, timeout allowed
//	tx, err := sink.Coordinator.Fence(ctx, id)            // a blind InitProducerID: only in recovery
//	err = sink.Producer.Begin(ctx, tx)
//	err = sink.Producer.Write(ctx, batch)                 // from many map tasks
//	sent, err := sink.Producer.Flush(ctx)                 // every batch acknowledged
//	offset, err := sink.Ledger.Append(ctx, tx, record)    // I2: in the same transaction
//	...                                                   // I1: the checkpoint becomes durable
//	outcome, next, err := sink.Coordinator.End(ctx, tx, true)
//
// The commit point is the moment in which the coordinator has made PrepareCommit durable for EndTxn; End's answer only
// reports it. With EndTxn version 4 (transaction.version below 2) next needs Coordinator.Refresh before its Begin (I6).
//
// # Files
//
//	producer.go run.go sender.go produce.go   a batch's way: queue of its partition, sender of its leader, request, answer
//	addpartitions.go                          explicit membership of partitions, before transaction.version 2
//	budget.go leaders.go request.go           bytes in flight; metadata; versions pinned per request, repetition
//	coordinator.go endtxn.go                  fence, refresh; EndTxn and how its answers are read
//	limits.go topics.go                       what the brokers can do; the sink's topics
//	ledger*.go, LEDGER.md                     the ledger topic and its records
//	errors.go                                 the meaning of every error code
//
// # What an acknowledgement is
//
// An answer counts only if it names the partition, has no error and an offset behind all that was acknowledged before
// in this epoch. Everything that is merely plausible (DUPLICATE_SEQUENCE_NUMBER, an answer without an offset, an offset
// given out twice) fails the epoch: recovery is exact and cheap, a wrong guess is neither. Lost answers and moved
// leaders are met with the same bytes and the same sequence, so a leader that has the batch answers with its old offset.
package txn
