// Package semantics says what the three guarantees mean: the types of the protocol, and the protocol itself as a pure state
// machine. It knows no Kafka, Pebble, clock or goroutine; PROTOCOL.md goes through every crash window.
//
// # The commit point
//
// Under EXACTLY_ONCE an epoch counts from the moment in which Kafka commits its transaction, and from no other. Under
// NONE and AT_LEAST_ONCE it counts when its checkpoint is durable.
//
// # The driver's contract
//
//  1. Step takes one event at a time; after each, Ready returns the actions that follow, in order. Actions of one Ready may
//     run at the same time, except that Persist is durable before its Persisted is stepped.
//  2. Every action is answered by the event that its comment names, or by Failed, once.
//  3. Halt cuts off everything that is under way; Halted is stepped when nothing is any more. Answers of
//     actions from before Halt are not stepped after Halted.
//  4. An action's error carries its Class. What may have happened is Unknown, never done and never not done.
//  5. Actions are not repeated after a restart: recovery begins with Started and what the store holds.
//
// # Invariants
//
// The numbers are cited in code, tests and messages.
//
//   - I1: A checkpoint is durable before its commit is requested. *
//   - I2: The ledger record is in the same transaction as the output that it accounts for.
//   - I3: Positions are taken from the ledger only after fencing, and from its end (high watermark). Reads before that may
//     only refuse, or find that we lost.
//   - I4: The checkpoint of the last decided epoch is kept until a later one is decided. *
//   - I5: A transaction holds exactly the output of the records between two barriers.
//   - I6: One transaction per (producer id, epoch): an id is used again only with a fresh epoch, and only after its
//     previous outcome is definitive; a blind InitProducerID is sent only as the fence.
//   - I7: An effect that may have happened is unknown, never done or not done. Unknown never becomes nil.
//   - I8: Epoch n is flushed before the first record of n+1 is produced; epochs are decided in order.
//   - I9: From a winner's ledger read on, no older incarnation can commit; a loser finds out, also when idle, exits and
//     says so.
//   - I10: Memory, retries and time in every state are bounded; whatever waits for long is visible as not ready, with the
//     reason.
//   - I11: Ids are fenced in ascending order, and the claim runs on the first.
//   - I12: A checkpoint is committed ⇔ the ledger names its transaction.
//
// (* With a ledger and without map state these only save work; map state and ledger = false need them.)
package semantics
