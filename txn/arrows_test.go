package txn_test

import (
	"kafkabridge/bridge"
	"kafkabridge/txn"
)

// What cmd/bridge hands to the bridge fits.
var (
	_ bridge.Writer     = (*txn.Producer)(nil)
	_ bridge.Arbiter    = (*txn.Coordinator)(nil)
	_ bridge.Ledger     = (*txn.Ledger)(nil)
	_ bridge.SinkTopics = (*txn.Topics)(nil)
)
