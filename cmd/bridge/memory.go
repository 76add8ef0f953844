package main

import (
	"os"
	"runtime/debug"

	"kafkabridge/configs"
)

// overhead is what a daemon needs beside the batches in flight, in bytes: code, clients, Pebble, buffers of map tasks.
const overhead = 112 << 20

// limitMemory tells the garbage collector how much the daemon should need. Without it the heap may grow to twice what
// lives in it before anything is collected, and most of that is answers of brokers that were read and passed on long
// ago. The limit is soft: a daemon that really needs more gets it.
func limitMemory(file *configs.File) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := int64(overhead)
	for _, b := range file.Bridges {
		limit += b.Options.MaxInFlight + b.Sink.MaxInFlight
	}
	debug.SetMemoryLimit(limit)
}
