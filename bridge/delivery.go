package bridge

import (
	"kafkabridge/batch"
	"kafkabridge/semantics"
)

// delivery is what a source task sends to a map task: a record batch or a barrier. One source task has one channel to
// each map task, so a barrier is always behind every batch that was handed over before it.
type delivery struct {
	barrier semantics.Epoch // not 0: the barrier of that epoch; the rest is unset
	batch   sourceBatch
}

// sourceBatch is one whole record batch as the broker sent it, neither control nor aborted. The receiver owns raw until
// it calls release, exactly once: only then does the source task count its bytes as no longer in flight.
type sourceBatch struct {
	source    string
	topic     string
	topicID   semantics.TopicID
	partition int32
	// partitions is the topic's partition count as the source knows it, for making sink topics.
	partitions int32
	header     batch.Header
	raw        []byte
	from       int64 // first wanted offset: records below it are cut
	release    func()
}

// assign names the map task that owns a source partition: always the same one, so that order per partition holds.
func assign(source, topic string, partition int32, tasks int) int {
	h := uint32(2166136261)
	for _, s := range [...]string{source, topic} {
		for i := range len(s) {
			h = (h ^ uint32(s[i])) * 16777619
		}
		h = (h ^ 0xff) * 16777619
	}
	// Neighbouring partitions go to neighbouring tasks: a hash of the number would leave tasks idle with few partitions.
	return int((h + uint32(partition)) % uint32(tasks))
}
