package bridge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"kafkabridge/semantics"
)

// notableAfter is how long a step of a checkpoint may take before it is what the bridge waits for.
const notableAfter = time.Second

// waitsFor says in one sentence what the bridge waits for now; s is the rest of its status.
func (h *hub) waitsFor(s Status) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.exit == "stopped":
		return "nothing: it was stopped"
	case h.exit != "":
		return "an operator: it has ended with: " + h.exit
	case h.now.Blocked != "":
		return "its transactional id: " + h.now.Blocked
	case h.now.State != semantics.StateRunning:
		return h.recoveryWaits(s)
	}
	for _, src := range s.Sources {
		if src.Stuck != "" {
			return fmt.Sprintf("source %s: %s", src.Name, src.Stuck)
		}
	}
	if why := h.checkpointWaits(); why != "" {
		return why + h.because()
	}
	if because := h.because(); because != "" {
		return strings.TrimPrefix(because, ": ")
	}
	return sourcesWait(s)
}

// because is the reason of what the driver waits for, with a colon before it. The caller holds mu.
func (h *hub) because() string {
	if len(h.waits) == 0 {
		return ""
	}
	first := slices.Min(slices.Collect(maps.Keys(h.waits)))
	return ": " + first + ": " + h.waits[first]
}

// recoveryWaits is what a recovery waits for. The caller holds mu.
func (h *hub) recoveryWaits(s Status) string {
	because := h.because()
	after := ""
	if h.lastFailure != "" {
		after = "; the failure was: " + h.lastFailure
	}
	switch h.now.State {
	case semantics.StateNew:
		return "the state directory and the sink cluster" + because
	case semantics.StateLooking, semantics.StateReading:
		return "the ledger's last record" + because
	case semantics.StateSettling:
		return "the outcome of the prepared transaction" + because
	case semantics.StateRecording, semantics.StateDropping:
		return "the state directory" + because
	case semantics.StateFencing:
		return "the transaction coordinator to fence older instances" + because
	case semantics.StateResolving:
		return "the sources to tell their offsets" + because
	case semantics.StateClaiming, semantics.StateClaimEnding:
		return "its claim to be committed in the ledger" + because
	case semantics.StateOpening:
		return "the first epoch to open" + because
	case semantics.StateHalting:
		return "what is under way to end" + because + after
	case semantics.StateAborting:
		return "the transaction coordinator to abort what is open" + because + after
	case semantics.StateWaiting:
		return "the end of a pause" + because + after
	case semantics.StateRunning, semantics.StateExited:
	}
	return "nothing: it is " + s.State
}

// checkpointWaits is the step of the oldest checkpoint under way, when it takes long; empty otherwise. The caller holds mu.
func (h *hub) checkpointWaits() string {
	under := slices.Sorted(maps.Keys(h.underWay))
	if len(under) == 0 || time.Since(h.underWay[under[0]].since) < notableAfter {
		return ""
	}
	n := under[0]
	switch c := h.underWay[n]; {
	case c.at == phaseAlign && len(h.unsent) > 0:
		return fmt.Sprintf("the barrier of epoch %d at source %s", n, strings.Join(slices.Sorted(maps.Keys(h.unsent)), ", "))
	case c.at == phaseAlign:
		return fmt.Sprintf("the map tasks to align the barrier of epoch %d (%d of %d have)", n, h.aligned, len(h.tasks))
	case c.at == phaseFlush && h.now.Epoch == n && h.now.Phase == semantics.PhaseAppending:
		return fmt.Sprintf("the ledger record of epoch %d to be acknowledged", n)
	case c.at == phaseFlush:
		return fmt.Sprintf("the sink to acknowledge every batch of epoch %d", n)
	case c.at == phasePersist:
		return fmt.Sprintf("the checkpoint of epoch %d to be durable", n)
	default:
		return fmt.Sprintf("the transaction coordinator to commit epoch %d", n)
	}
}

// aligning notes that a barrier is on its way, to all sources first.
func (h *hub) aligning(sources []*source) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unsent, h.aligned = map[string]bool{}, 0
	for _, s := range sources {
		h.unsent[s.o.Name] = true
	}
}

// barrierSent notes that a source has sent the barrier down every channel.
func (h *hub) barrierSent(source string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.unsent, source)
}

// taskAligned notes that a map task has aligned the barrier.
func (h *hub) taskAligned() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.aligned++
}

// sourcesWait is what a bridge that runs waits for outside of itself.
func sourcesWait(s Status) string {
	var lag int64
	var longest PartitionStatus
	for _, src := range s.Sources {
		if len(src.Waiting) > 0 {
			return fmt.Sprintf("source %s: %s", src.Name, src.Waiting[0])
		}
		for _, p := range src.Partitions {
			lag += max(0, p.Lag)
			if p.Lag == 0 && p.HeldSecs > longest.HeldSecs {
				longest = p
			}
		}
	}
	switch {
	case lag > 0:
		return fmt.Sprintf("nothing: records are moving, %d offsets to go", lag)
	case longest.HeldSecs > 0:
		return fmt.Sprintf("the open transaction of %s, which has held back topic %s partition %d for %.0fs", longest.HeldBy, longest.Topic, longest.Partition, longest.HeldSecs)
	default:
		return "new records in the sources"
	}
}
