package txn

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"kafkabridge/semantics"
)

// meaning is what an error code tells this package.
type meaning struct {
	class  semantics.Class
	fenced bool
	exit   semantics.ExitCode // for Fatal
	again  bool               // the identical request may simply be sent again (a batch: with its sequence)
	stale  bool               // leader or coordinator is to be looked up again
	reason string             // for people; the way out where there is one
}

// meaningOf classifies every code that a request of this package can meet. Anything else is Unknown: it may have
// happened.
func meaningOf(code int16) meaning {
	err := kerr.ErrorForCode(code)
	for _, group := range []func(error) (meaning, bool){routing, waiting, fencing, sequencing, permission, refused} {
		if m, ok := group(err); ok {
			return m
		}
	}
	return meaning{class: semantics.Unknown, reason: "an answer this program does not know; it may have happened"}
}

// routing: the broker asked is not the one that does it. Nothing happened, except where said.
func routing(err error) (meaning, bool) {
	m := meaning{class: semantics.Retry, again: true, stale: true}
	switch err {
	case kerr.NotLeaderForPartition:
		// After an append that lost its leadership before it was replicated this comes too: the new leader may or may
		// not have the batch, and its sequence tells.
		m.class, m.reason = semantics.Unknown, "the leader moved"
	case kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch:
		m.reason = "broker and client know different leader epochs"
	case kerr.LeaderNotAvailable:
		m.reason = "the partition has no leader now"
	case kerr.ReplicaNotAvailable, kerr.BrokerNotAvailable, kerr.ListenerNotFound:
		m.reason = "the broker is starting or stopping"
	case kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InconsistentTopicID:
		m.reason = "the topic is not there, or this broker has not heard of it yet"
	case kerr.NotCoordinator:
		m.reason = "the transaction coordinator moved"
	case kerr.NotController:
		m.reason = "the controller moved"
	case kerr.KafkaStorageError:
		m.class, m.reason = semantics.Unknown, "a disk of the broker failed; another replica takes over"
	default:
		return meaning{}, false
	}
	return m, true
}

// waiting: the right broker, not now.
func waiting(err error) (meaning, bool) {
	m := meaning{class: semantics.Retry, again: true}
	switch err {
	case kerr.CoordinatorLoadInProgress:
		m.reason = "the coordinator is loading its log"
	case kerr.CoordinatorNotAvailable:
		m.stale, m.reason = true, "there is no coordinator now"
	case kerr.ConcurrentTransactions:
		m.reason = "markers of the id's previous transaction are still being written"
	case kerr.TransactionCoordinatorFenced:
		// The coordinator found itself deposed while it wrote: the new one knows whether it got through.
		m.class, m.stale, m.reason = semantics.Unknown, true, "the coordinator was deposed while it wrote"
	case kerr.NotEnoughReplicas:
		m.reason = "fewer in-sync replicas than min.insync.replicas"
	case kerr.NotEnoughReplicasAfterAppend:
		m.class, m.reason = semantics.Unknown, "appended, but not to min.insync.replicas replicas"
	case kerr.RequestTimedOut:
		m.class, m.reason = semantics.Unknown, "the broker did not finish in time"
	case kerr.NetworkException:
		// From KIP-890's verification: the leader could not reach the coordinator. Nothing was appended.
		m.stale, m.reason = true, "brokers could not reach each other"
	case kerr.OperationNotAttempted:
		m.reason = "another partition of the request failed"
	case kerr.ThrottlingQuotaExceeded:
		m.reason = "a quota is used up"
	case kerr.OffsetNotAvailable:
		m.reason = "the new leader does not know its high watermark yet"
	case kerr.ReassignmentInProgress:
		m.reason = "partitions are being moved"
	case kerr.InvalidReplicationFactor:
		// Topics are created with the cluster's own default: brokers that start, stop or are fenced for a moment are not
		// counted. As a refusal it ended the first start of a bridge beside a broker's restart.
		m.reason = "fewer brokers are in service than the cluster's default.replication.factor; it goes on when they are back, or lower that setting"
	default:
		return meaning{}, false
	}
	return m, true
}

// fencing: somebody initialised the id, or its coordinator bumped the epoch after a timeout. Whether this
// incarnation has lost stands in the ledger only.
func fencing(err error) (meaning, bool) {
	m := meaning{class: semantics.Unknown, fenced: true}
	switch err {
	case kerr.ProducerFenced:
		m.reason = "the transactional id was initialised by somebody, or its transaction timed out"
	case kerr.InvalidProducerEpoch:
		m.reason = "the producer epoch is not the current one (older brokers' word for PRODUCER_FENCED)"
	case kerr.InvalidProducerIDMapping:
		m.reason = "the transactional id has another producer id now, or has expired"
	case kerr.InvalidTxnState:
		m.reason = "the transaction is not open: it timed out, or somebody ended it"
	default:
		return meaning{}, false
	}
	return m, true
}

// sequencing: the partition's log and our count of what was acknowledged contradict each other.
func sequencing(err error) (meaning, bool) {
	m := meaning{class: semantics.Unknown}
	switch err {
	case kerr.OutOfOrderSequenceNumber:
		// With one batch in flight that means that acknowledged records are gone, or that the broker forgot the
		// producer. A new sequence would hide which.
		m.reason = "the partition's leader does not hold the batch before this one"
	case kerr.UnknownProducerID:
		m.reason = "the partition's leader has forgotten this producer (retention took its last batch)"
	case kerr.DuplicateSequenceNumber:
		// Brokers answer an exact repeat with no error, the old offset, and after replication. This answer has neither
		// an offset nor waited for replicas: it proves nothing about an append that may be acknowledged (design I7).
		m.reason = "the leader has seen a later batch than the one that was sent"
	case kerr.TransactionAbortable:
		m.reason = "the broker asks to abort this transaction"
	default:
		return meaning{}, false
	}
	return m, true
}

// permission: an operator has to act.
func permission(err error) (meaning, bool) {
	m := meaning{class: semantics.Fatal, exit: semantics.ExitUsage}
	switch err {
	case kerr.TopicAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.GroupAuthorizationFailed:
		m.reason = "not authorized"
	case kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState, kerr.SecurityDisabled:
		m.reason = "the sasl block does not fit the broker"
	case kerr.InvalidTransactionTimeout:
		m.reason = "transaction_timeout is above the broker's transaction.max.timeout.ms"
	case kerr.InvalidTopicException:
		m.reason = "the topic name is not allowed"
	case kerr.UnsupportedVersion:
		m.reason = "the broker is too old for this request"
	case kerr.InvalidRequiredAcks, kerr.InvalidPartitions, kerr.InvalidConfig, kerr.InvalidReplicaAssignment:
		m.reason = "the cluster refuses these settings"
	default:
		return meaning{}, false
	}
	return m, true
}

// refused: the same record would be refused for ever, and every recovery would read it again (exit 3).
func refused(err error) (meaning, bool) {
	m := meaning{class: semantics.Fatal, exit: semantics.ExitRefused}
	switch err {
	case kerr.MessageTooLarge, kerr.RecordListTooLarge:
		m.reason = "larger than the sink topic takes; raise its max.message.bytes (or segment.bytes), or drop the record with a map"
	case kerr.InvalidTimestamp:
		m.reason = "the sink topic refuses the timestamp; set its message.timestamp.type to LogAppendTime or raise message.timestamp.before.max.ms / message.timestamp.after.max.ms"
	case kerr.InvalidRecord:
		m.reason = "the sink topic refuses the records (a compacted topic takes no record without a key)"
	case kerr.UnsupportedForMessageFormat:
		m.reason = "the sink topic has an old message.format.version"
	case kerr.UnsupportedCompressionType:
		m.reason = "the sink cluster does not know the batch's compression; set compression"
	case kerr.PolicyViolation:
		m.reason = "a policy of the sink cluster refuses it"
	default:
		return meaning{}, false
	}
	return m, true
}

// resource names what a request was about, for messages about permissions.
type resource struct {
	kind, name, operation string
}

// codeError is the classified error for a code; detail says more, such as source offsets.
func codeError(op string, code int16, r resource, detail string) *semantics.Error {
	m := meaningOf(code)
	text := fmt.Sprintf("%s %q", r.kind, r.name)
	if notPermitted(code) {
		text = fmt.Sprintf("%s on %s %q is needed (bridge validate prints the command that grants it)", r.operation, r.kind, r.name)
	}
	if detail != "" {
		text += ": " + detail
	}
	return &semantics.Error{
		Class: m.class, Fenced: m.fenced, Exit: m.exit, Op: op,
		Err: fmt.Errorf("%s: %s: %w", text, m.reason, kerr.ErrorForCode(code)),
	}
}

// notPermitted says whether code is about permissions, which the message then names.
func notPermitted(code int16) bool {
	switch kerr.ErrorForCode(code) {
	case kerr.TopicAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.GroupAuthorizationFailed:
		return true
	default:
		return false
	}
}

// lostAnswer is the error of a request without an answer: it may have happened.
func lostAnswer(op string, err error) *semantics.Error {
	return &semantics.Error{Class: semantics.Unknown, Op: op, Err: err}
}
