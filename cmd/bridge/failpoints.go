package main

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"kafkabridge/semantics"
)

// failpointVariable names the step of the protocol after which the process kills itself, as kill -9 does: "name", or
// "name:n" for the nth time that this process comes to it.
const failpointVariable = "BRIDGE_FAILPOINT"

// failpoints are the named steps, in the order in which a first run comes to them.
var failpoints = []string{"after-fence", "after-claim", "after-flush", "after-ledger-record", "after-persist", "after-commit"}

// failpoint is what bridges call after each named step; nil without the variable. It is in every binary, so that bridge
// selftest tries the one that its user runs. A wrong name is an error: a test that kills nothing would pass.
func failpoint(log hclog.Logger) (func(operation string), error) {
	set := os.Getenv(failpointVariable)
	if set == "" {
		return nil, nil
	}
	name, number, counted := strings.Cut(set, ":")
	at, err := int64(1), error(nil)
	if counted {
		at, err = strconv.ParseInt(number, 10, 64)
	}
	if err != nil || at < 1 || !slices.Contains(failpoints, name) {
		return nil, semantics.Misconfigured("start", "%s=%q names no step: it is one of %s, with :n behind it for the nth time; unset it unless this process shall kill itself",
			failpointVariable, set, strings.Join(failpoints, ", "))
	}
	log.Warn("this process will kill itself, as kill -9 does: "+failpointVariable+" is set", "step", name, "time", at)
	var seen atomic.Int64
	return func(operation string) {
		if name == operation && seen.Add(1) == at {
			killSelf()
			select {} // the signal may take a moment, and nothing more may happen
		}
	}, nil
}

func killSelf() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
}
