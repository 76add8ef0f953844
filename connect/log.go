package connect

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kgo"
)

// clientLog is kgo's logger. kgo's info is our debug, and its debug our trace: it tells of every connection. Values
// are scrubbed, because an error may repeat what a broker or a token server said.
//
// A broker that is away would fill the log with one warning for each attempt: the same warning is repeated every
// warnAgain, and is debug in between.
type clientLog struct {
	log  hclog.Logger
	sasl *SASL

	mu     sync.Mutex
	warned map[string]time.Time // by message and values; at most maxWarned
}

const (
	warnAgain = 10 * time.Second
	maxWarned = 256
)

// fresh says whether a warning was not given lately.
func (l *clientLog) fresh(warning string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if at, ok := l.warned[warning]; ok && now.Sub(at) < warnAgain {
		return false
	}
	if l.warned == nil || len(l.warned) >= maxWarned {
		l.warned = map[string]time.Time{}
	}
	l.warned[warning] = now
	return true
}

// Level is asked before each message; it follows the hclog level at run time.
func (l *clientLog) Level() kgo.LogLevel {
	switch {
	case l.log.IsTrace():
		return kgo.LogLevelDebug
	case l.log.IsDebug():
		return kgo.LogLevelInfo
	case l.log.IsWarn():
		return kgo.LogLevelWarn
	case l.log.IsError():
		return kgo.LogLevelError
	default:
		return kgo.LogLevelNone
	}
}

func (l *clientLog) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	args := make([]any, len(keyvals))
	for i, v := range keyvals {
		args[i] = l.value(v)
	}
	msg = l.sasl.scrub(msg)
	switch level {
	case kgo.LogLevelError:
		l.log.Error(msg, args...)
	case kgo.LogLevelWarn:
		if !l.fresh(fmt.Sprint(msg, args)) {
			l.log.Debug(msg, args...)
			return
		}
		l.log.Warn(msg, args...)
	case kgo.LogLevelInfo:
		l.log.Debug(msg, args...)
	case kgo.LogLevelDebug:
		l.log.Trace(msg, args...)
	case kgo.LogLevelNone:
	}
}

func (l *clientLog) value(v any) any {
	switch v.(type) {
	case bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64:
		return v
	default:
		return l.sasl.scrub(fmt.Sprint(v))
	}
}
