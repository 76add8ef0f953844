package bridge

import (
	"fmt"
	"path"
	"runtime"
	"strings"
)

// panicLimit bounds what is shown of the value that a map panicked with, in bytes: it may hold a record, or more.
const panicLimit = 200

// recovered makes a panic the error of the call that it is deferred around. The process would end without a word of the
// record otherwise, and again after each restart, and take its other bridges with it.
func recovered(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("the map panicked in %s: %s", panicked(), bounded(fmt.Sprint(v), panicLimit))
	}
}

// panicked is the function that panicked, with file and line; recovered's deferred call is still above it on the stack.
func panicked() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for below := false; ; {
		f, more := frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.")
		if below && !inRuntime {
			return fmt.Sprintf("%s (%s:%d)", f.Function, path.Base(f.File), f.Line)
		}
		if below = below || f.Function == "runtime.gopanic"; !more {
			return "an unknown function"
		}
	}
}
