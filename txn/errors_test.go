package txn

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"kafkabridge/semantics"
)

// The numbers are those of the protocol's error table (kafka.apache.org/protocol, "Error Codes"), written down here by
// number so that a wrong name in errors.go is noticed.
func TestEveryKafkaErrorIsClassified(t *testing.T) {
	again := []int16{
		3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 19, 20, 38, 41, 51, 52, 55, 56, 60, 72, 74, 75, 78, 89, 100, 103,
	}
	unknownAgain := []int16{6, 7, 20, 52, 56} // may have happened, and the identical request may be repeated
	fenced := []int16{47, 48, 49, 90}
	usage := []int16{17, 21, 29, 30, 31, 33, 34, 35, 37, 39, 40, 50, 53, 54, 58}
	refuse := []int16{10, 18, 32, 43, 44, 76, 87}
	known := 0
	for code := int16(-1); code < 400; code++ {
		err := kerr.ErrorForCode(code)
		if err == nil {
			continue
		}
		if code != -1 && !errors.Is(err, kerr.UnknownServerError) {
			known++
		}
		m := meaningOf(code)
		if m.reason == "" {
			t.Errorf("%v has no reason", err)
		}
		want := meaning{class: semantics.Unknown}
		switch {
		case slices.Contains(again, code):
			want.again = true
			if !slices.Contains(unknownAgain, code) {
				want.class = semantics.Retry
			}
		case slices.Contains(fenced, code):
			want.fenced = true
		case slices.Contains(usage, code):
			want.class, want.exit = semantics.Fatal, semantics.ExitUsage
		case slices.Contains(refuse, code):
			want.class, want.exit = semantics.Fatal, semantics.ExitRefused
		}
		if m.class != want.class || m.fenced != want.fenced || m.exit != want.exit || m.again != want.again {
			t.Errorf("%v is %s fenced=%v exit=%d again=%v, want %s fenced=%v exit=%d again=%v",
				err, m.class, m.fenced, m.exit, m.again, want.class, want.fenced, want.exit, want.again)
		}
	}
	if known < 130 {
		t.Errorf("only %d codes were looked at", known)
	}
}

// A fenced answer, or one that proves nothing, must never look as if the same request could go on.
func TestNoSequenceAnswerIsRepeated(t *testing.T) {
	for _, err := range []*kerr.Error{kerr.OutOfOrderSequenceNumber, kerr.DuplicateSequenceNumber, kerr.UnknownProducerID, kerr.TransactionAbortable, kerr.UnknownServerError, kerr.CorruptMessage} {
		if m := meaningOf(err.Code); m.again || m.class != semantics.Unknown {
			t.Errorf("%v: class %s, again %v", err, m.class, m.again)
		}
	}
}

func TestCodeErrorNamesWhatIsNeeded(t *testing.T) {
	err := codeError("produce", kerr.TopicAuthorizationFailed.Code, resource{"topic", "west", "WRITE"}, "sink west/3")
	if !strings.Contains(err.Error(), `WRITE on topic "west"`) || !strings.Contains(err.Error(), "sink west/3") || !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("text %q", err)
	}
}

// The tables of Kafka's answers to EndTxn, measured on real brokers (see verdict).
func TestVerdict(t *testing.T) {
	const committed, aborted, ambiguous = semantics.OutcomeCommitted, semantics.OutcomeAborted, semantics.OutcomeAmbiguous
	for _, c := range []struct {
		err     *kerr.Error // nil: no error
		version int16
		commit  bool
		want    semantics.Outcome // 0: undecided
	}{
		{nil, 5, true, committed}, {nil, 4, true, committed}, {nil, 5, false, aborted}, {nil, 4, false, aborted},
		{kerr.InvalidTxnState, 5, true, aborted}, {kerr.InvalidTxnState, 4, true, aborted},
		{kerr.InvalidTxnState, 5, false, committed}, {kerr.InvalidTxnState, 4, false, ambiguous},
		{kerr.ProducerFenced, 5, true, ambiguous}, {kerr.ProducerFenced, 4, true, ambiguous}, {kerr.ProducerFenced, 5, false, ambiguous},
		{kerr.InvalidProducerEpoch, 5, true, ambiguous}, {kerr.InvalidProducerEpoch, 3, true, ambiguous},
		{kerr.InvalidProducerIDMapping, 5, true, ambiguous}, {kerr.InvalidProducerIDMapping, 4, false, ambiguous},
		{kerr.ConcurrentTransactions, 5, true, 0}, {kerr.NotCoordinator, 5, true, 0}, {kerr.CoordinatorNotAvailable, 4, true, 0},
		{kerr.CoordinatorLoadInProgress, 5, true, 0}, {kerr.UnknownServerError, 5, true, 0}, {kerr.RequestTimedOut, 5, true, 0},
		{kerr.TransactionalIDAuthorizationFailed, 5, true, 0}, {kerr.TransactionAbortable, 5, true, 0}, {kerr.TransactionalIDNotFound, 5, true, 0},
	} {
		code := int16(0)
		if c.err != nil {
			code = c.err.Code
		}
		got, known := verdict(code, c.version, c.commit)
		if got != c.want || known != (c.want != 0) {
			t.Errorf("verdict(%v, v%d, commit %v) = %v, %v, want %v", c.err, c.version, c.commit, got, known, c.want)
		}
	}
}
