package semantics

import (
	"errors"
	"fmt"
)

// Class says what a failed operation has done outside (I7). An error that carries no class is Unknown.
type Class uint8

// Retry: nothing happened, the same operation may be tried again. Unknown: it may have happened; only recovery finds
// out. Fatal: the process stops with the error's exit code.
const (
	Retry Class = iota + 1
	Unknown
	Fatal
)

// String is the value of the log field class.
func (c Class) String() string {
	switch c {
	case Retry:
		return "retry"
	case Unknown:
		return "unknown"
	case Fatal:
		return "fatal"
	default:
		return fmt.Sprintf("Class(%d)", uint8(c))
	}
}

// ExitCode is the process's exit code.
type ExitCode int

// The exit codes of the command line contract.
const (
	ExitDone    ExitCode = 0 // done, or stopped as asked
	ExitGaveUp  ExitCode = 1 // restart attempts used up
	ExitUsage   ExitCode = 2 // wrong usage or configuration
	ExitRefused ExitCode = 3 // going on would lose or double records
	ExitLost    ExitCode = 4 // another incarnation took over
)

// Error is a failure with its class. Op names the operation as in "end transaction"; Err carries topic, partition and
// offset where there are any.
type Error struct {
	Class  Class
	Fenced bool     // PRODUCER_FENCED and its kin: find out in the ledger whether this incarnation has lost
	Exit   ExitCode // for Fatal only
	Op     string
	Err    error
}

// Error is Op and the cause.
func (e *Error) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf is the class that err carries, Unknown when it carries none.
func ClassOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return Unknown
}

// IsFenced says whether err reports that somebody else initialised the transactional id, or that the coordinator
// bumped its epoch: this alone does not tell that the incarnation has lost.
func IsFenced(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Fenced
}

// Refuse is a Fatal error with exit code 3: going on would lose or double records. The text names topic, partition,
// offsets and the way out.
func Refuse(op, format string, args ...any) *Error {
	return &Error{Class: Fatal, Exit: ExitRefused, Op: op, Err: fmt.Errorf(format, args...)}
}

// Misconfigured is a Fatal error with exit code 2; the text names the setting.
func Misconfigured(op, format string, args ...any) *Error {
	return &Error{Class: Fatal, Exit: ExitUsage, Op: op, Err: fmt.Errorf(format, args...)}
}

// Outcome is what EndTxn told about a transaction.
type Outcome uint8

// Ambiguous is F or IPM: somebody initialised the id since, and only the ledger knows whether the transaction was
// committed before that. It is never taken for Aborted.
const (
	OutcomeCommitted Outcome = iota + 1
	OutcomeAborted
	OutcomeAmbiguous
)

// String is the word used in logs.
func (o Outcome) String() string {
	switch o {
	case OutcomeCommitted:
		return "committed"
	case OutcomeAborted:
		return "aborted"
	case OutcomeAmbiguous:
		return "ambiguous"
	default:
		return fmt.Sprintf("Outcome(%d)", uint8(o))
	}
}
