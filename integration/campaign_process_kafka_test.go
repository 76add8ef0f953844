//go:build kafka

package integration

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// freezes: SIGSTOP and SIGCONT, shorter and longer than the transaction timeout, while records flow.
func (b *batch) freezes(t *testing.T, s *site) {
	b.freeze(t, s, "frozen, thawed before the transaction timeout", []time.Duration{300 * time.Millisecond, time.Second, 2500 * time.Millisecond})
	b.freeze(t, s, "frozen for longer than the transaction timeout", []time.Duration{cellTimeout + 2*time.Second, 2 * cellTimeout})
}

func (b *batch) freeze(t *testing.T, s *site, scenario string, lengths []time.Duration) {
	b.announce(scenario)
	for i := range b.repeats(1, 4) {
		t.Run(short(fmt.Sprint(scenario, " ", i)), func(t *testing.T) {
			x := b.newCell(t, scenario, s.Cluster, s.Cluster, 3)
			d := x.start("")
			for _, length := range lengths {
				x.decidedAfter(d, time.Now())
				pause(time.Duration(rand.Int64N(int64(600 * time.Millisecond)))) // anywhere in an epoch
				if err := d.Freeze(); err != nil {
					t.Fatal(err)
				}
				pause(length)
				thawed := time.Now()
				if err := d.Thaw(); err != nil {
					t.Fatal(err)
				}
				x.recovered(d, thawed)
			}
			x.judge(b, d)
		})
	}
}

// kills: SIGKILL after SIGKILL, every fourth at any moment of the start.
func (b *batch) kills(t *testing.T, s *site) {
	n := b.repeats(12, 200)
	scenario := fmt.Sprintf("%d kills in a row", n)
	b.announce(scenario)
	t.Run(short(scenario), func(t *testing.T) {
		seed := rand.Uint64()
		t.Logf("kill times: seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		x := b.newCell(t, scenario, s.Cluster, s.Cluster, 3)
		for i := range n {
			begin := time.Now()
			d := x.start("")
			if i%4 != 3 {
				x.recovered(d, begin)
			}
			pause(time.Duration(random.Int64N(int64(time.Second))))
			x.kill(d)
		}
		x.judge(b, x.again(""))
	})
}
