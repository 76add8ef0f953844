// Package oracle says what a topic holds without any code of the bridge: Kafka's own Java consumer reads
// (Read: a program of ours around KafkaConsumer that prints bytes as hex; Console: the kafka-console-consumer
// itself), and Check compares what the sink shows with what the sources hold.
package oracle
