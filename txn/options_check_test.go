package txn

import (
	"slices"
	"testing"
)

// TestTransactionalIDs: the names are in use on brokers, so they never change. The ids of two prefixes never meet, not
// even when one prefix looks like an id of the other.
func TestTransactionalIDs(t *testing.T) {
	if got := TransactionalIDs("orders"); !slices.Equal(got, []string{"orders-0", "orders-1"}) {
		t.Error(got)
	}
	for _, id := range TransactionalIDs("orders-0") {
		if slices.Contains(TransactionalIDs("orders"), id) {
			t.Errorf("%s belongs to two prefixes", id)
		}
	}
}
