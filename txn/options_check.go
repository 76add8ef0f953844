package txn

// DefaultLedger is the default of ledger. EnsureDefaults cannot apply it: a false that was meant looks like a forgotten one.
const DefaultLedger = true

// TransactionalIDs are the transactional ids of the prefix that transactional_id sets, in fencing order (I11). Another
// naming would orphan what is prepared under the old names, so this never changes.
func TransactionalIDs(prefix string) []string { return []string{prefix + "-0", prefix + "-1"} }
