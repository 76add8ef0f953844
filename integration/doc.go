// Package integration is the proof: the built bridge, driven as a process, against real Apache Kafka, judged by
// Kafka's own consumer. See README.md. The suite needs the build tag kafka.
package integration
