package batch

// Refused is the error of a batch that a broker did not take because of what is in it, or because of where it was to go.
// Nothing of the batch was appended by this request, and the same batch would be refused again.
type Refused struct {
	Topic     string // of the sink
	Partition int32  // of the sink
	Why       Refusal
	Bytes     int   // of the batch
	Count     int32 // of its records
	// Records are those that the broker named. None: it judged the batch as a whole, or did not say.
	Records []RefusedRecord
	// Earliest and Latest are the timestamps that the broker would have taken at that moment, where HasRange.
	Earliest, Latest int64
	HasRange         bool
	Origins          any // of the batch, see [Outbound]
	Err              error
}

// Refusal is what a refusal is about.
type Refusal uint8

// The refusals.
const (
	RefusedRecords Refusal = iota + 1 // some of its records: a timestamp, a missing key
	RefusedSize                       // it is larger than the topic takes
	RefusedTopic                      // the topic: no right to write, not a name
)

// RefusedRecord is one record of a batch that a broker named.
type RefusedRecord struct {
	Index   int32 // in the batch
	NullKey bool
	Reason  string // the broker's words, not bounded
}

// Error is that of the cause.
func (r *Refused) Error() string { return r.Err.Error() }

// Unwrap is the cause.
func (r *Refused) Unwrap() error { return r.Err }
