//go:build !race

package batch

import "testing"

// The whole way of a batch through a map task allocates nothing once its buffers have grown; gzip and zstd may do so
// per batch (their libraries do, and pooled encoders go with a garbage collection) but not per record.
func TestNoAllocations(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		raw := jsonBatch(t, benchRecords, codec)
		p := pipeline{dec: NewDecoder(DefaultDecompressedLimit)}
		most := 0.0
		if codec == Gzip || codec == Zstd {
			most = 20
		}
		allocs := testing.AllocsPerRun(5, func() {
			if err := p.run(raw, codec); err != nil {
				t.Fatal(err)
			}
		})
		if allocs > most {
			t.Errorf("%s: %.0f allocations for a batch of %d records, want at most %.0f", codec, allocs, benchRecords, most)
		}
	}
}
