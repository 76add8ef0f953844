package main

import (
	"context"

	"kafkabridge/batch"
	"kafkabridge/bridge"
	"kafkabridge/server"
)

// countedWriter counts what its Writer has taken, those of aborted epochs included.
type countedWriter struct {
	bridge.Writer
	written *server.Written
}

// Write counts the batch when it is taken. Its fields are copies; Raw is not touched.
func (w *countedWriter) Write(ctx context.Context, b batch.Outbound) error {
	if err := w.Writer.Write(ctx, b); err != nil {
		return err
	}
	w.written.Add(b.Topic, b.Partition, b.Records)
	return nil
}
