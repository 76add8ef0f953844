package integration

import (
	"maps"
	"slices"
	"sync"
	"testing"

	"kafkabridge/integration/daemon"
	"kafkabridge/integration/kafka"
)

// kfakeSuite is what all cases share.
type kfakeSuite struct {
	binary string

	mu    sync.Mutex
	ports map[int]bool // given to some case: a bridge that is down must not find another's answers on its port
}

func (s *kfakeSuite) port() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		port, err := kafka.FreePort()
		if err != nil || !s.ports[port] {
			s.ports[port] = true
			return port, err
		}
	}
}

// TestKfake runs the built bridge, as a process, against kfake in this process: nothing but Go is needed. kfake is not
// Kafka: it has no prepare states and never answers CONCURRENT_TRANSACTIONS, an InitProducerID on an open transaction
// bumps the epoch once and not twice, and EndTxn looks at the producer id only. So what an ambiguous answer of EndTxn
// leads to is left to the suite on real brokers, and so are broker crashes, moved leaders and compaction gaps.
func TestKfake(t *testing.T) {
	binary, err := daemon.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &kfakeSuite{binary: binary, ports: map[int]bool{}}
	cases := map[string]func(*testing.T, *kfakeSuite){}
	for _, group := range []map[string]func(*testing.T, *kfakeSuite){kfakeKillCases(), kfakeFlowCases(), kfakeStateCases(), kfakeSourceCases(), kfakeMapsCases(),
		caseECases(), caseFCases(), caseGCases(), caseHCases(), caseICases()} {
		maps.Copy(cases, group)
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cases[name](t, s)
		})
	}
}
