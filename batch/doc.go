// Package batch is Kafka's record batch, wire format v2 (magic 2): parse, walk, cut, encode, compress, stamp. It does
// no I/O and starts no goroutine.
//
// The record batch is the unit of the data path: where no map needs the records a batch goes on with a new header and
// the payload as it is, otherwise its records are walked in place and encoded into the open batch of the sink
// partition. Both ways allocate nothing per record.
//
//	for len(fetched) > 0 {
//		h, raw, rest, err := batch.Next(fetched)
//		if errors.Is(err, batch.ErrTruncated) {
//			break // the broker cut its answer by size; fetch again from where the last whole batch ended
//		}
//		...
//		fetched = rest
//	}
//
// To keep only the records from offset N on (a start position inside a batch, an aborted range), decode the batch,
// skip what the [Reader] gives with a lower [Record.Offset], and append the rest to a [Builder]: a batch cannot be cut
// without writing it anew, because its CRC and its offset deltas cover all of it.
//
// # Layout
//
// All integers are big endian (Kafka's message format; org.apache.kafka.common.record.DefaultRecordBatch):
//
//	 0 FirstOffset int64      21 Attributes int16       43 ProducerID int64
//	 8 Length int32           23 LastOffsetDelta int32  51 ProducerEpoch int16
//	12 LeaderEpoch int32      27 FirstTimestamp int64   53 FirstSequence int32
//	16 Magic int8             35 MaxTimestamp int64     57 NumRecords int32
//	17 CRC uint32                                       61 records, perhaps compressed
//
// Length counts what follows it. The CRC (Castagnoli) covers everything after itself, so FirstOffset and the leader
// epoch can be rewritten by a broker without it.
//
// A record is: length, attributes int8, timestamp delta, offset delta, key length, key, value length, value, header
// count, then per header key length, key, value length, value. All but the attributes are zigzag varints; a length of
// -1 is null.
package batch
