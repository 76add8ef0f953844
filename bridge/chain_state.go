package bridge

import (
	"bytes"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"
)

// stateKey names the state of one map for one source partition. Nothing in it depends on the number of map tasks, so
// state survives a change of workers.
type stateKey struct {
	position  int // of the map in the configuration, from 0
	kind      string
	source    string
	topic     string
	partition int32
}

// String is the key in the checkpoint: position/kind/source/topic/partition, each part path-escaped so that a slash in
// a name cannot make two keys one.
func (k stateKey) String() string {
	return fmt.Sprintf("%d/%s/%s/%s/%d", k.position, url.PathEscape(k.kind), url.PathEscape(k.source), url.PathEscape(k.topic), k.partition)
}

// parseStateKey is the inverse of String; ok is false for a key that String does not make.
func parseStateKey(s string) (k stateKey, ok bool) {
	parts := strings.Split(s, "/")
	if len(parts) != 5 {
		return stateKey{}, false
	}
	position, err1 := strconv.Atoi(parts[0])
	kind, err2 := url.PathUnescape(parts[1])
	source, err3 := url.PathUnescape(parts[2])
	topic, err4 := url.PathUnescape(parts[3])
	partition, err5 := strconv.ParseInt(parts[4], 10, 32)
	for _, err := range [...]error{err1, err2, err3, err4, err5} {
		if err != nil {
			return stateKey{}, false
		}
	}
	k = stateKey{position: position, kind: kind, source: source, topic: topic, partition: int32(partition)}
	return k, k.String() == s
}

// mapState is the map state that one map task answers for: that of its source partitions. It holds what was restored
// until a partition's own snapshot replaces it, so that partitions without a record in this run keep theirs.
type mapState map[string][]byte

// ownState is what the map task with that index keeps of the whole state: each key has exactly one owner, also one
// whose source, topic or map is not configured any more and one that nobody understands.
func ownState(all map[string][]byte, index, tasks int) mapState {
	own := mapState{}
	for key, b := range all {
		owner := 0
		if k, ok := parseStateKey(key); ok {
			owner = assign(k.source, k.topic, k.partition, tasks)
		}
		if owner == index {
			own[key] = b
		}
	}
	return own
}

// get is a copy: the original is part of a checkpoint that others read, and a map may write into what it restores.
func (s mapState) get(k stateKey) ([]byte, bool) {
	b, ok := s[k.String()]
	return bytes.Clone(b), ok
}

// set stores a copy: the map may go on writing into what it returned while the checkpoint is being saved.
func (s mapState) set(k stateKey, b []byte) { s[k.String()] = append([]byte{}, b...) }

// clone is a copy that is not written again; nil when there is no state.
func (s mapState) clone() map[string][]byte {
	if len(s) == 0 {
		return nil
	}
	return maps.Clone(s)
}
