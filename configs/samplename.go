package configs

import (
	"regexp/syntax"

	"kafkabridge/bridge"
)

// grows says whether the topics that the bridge makes of topics that match topics_regex match it again, and what is
// made of those, too: with topics_regex = ".*" and topic = "copy.${topic}" the cluster would fill with copies of copies.
// It tries a few names that match, so it finds the plain cases, not every one.
func grows(o *bridge.SourceOptions, topic *topicTemplate) bool {
	if topic.constant {
		return false // never matched: see neverMatchOwn
	}
	re, err := syntax.Parse(o.TopicsRegex, syntax.Perl)
	if err != nil {
		return false
	}
	for _, repeat := range []int{0, 1, 3} {
		var name []byte
		if name = appendMatch(name, re.Simplify(), repeat); again(o, topic, string(name)) {
			return true
		}
	}
	return false
}

// roundsToGrow of copies of copies are taken as proof; a pattern with alternatives may match two by intent.
const roundsToGrow = 3

func again(o *bridge.SourceOptions, topic *topicTemplate, name string) bool {
	for range roundsToGrow {
		if bridge.CheckTopic(name) != nil || !readsTopic(o, name) {
			return false
		}
		next, err := topic.eval(name)
		if err != nil {
			return false
		}
		if next == name {
			return true
		}
		name = next
	}
	return readsTopic(o, name)
}

// appendMatch appends a text that the expression matches, with its repetitions repeated so many times where it allows
// that. Assertions are taken as met: the caller tries the result.
func appendMatch(b []byte, re *syntax.Regexp, repeat int) []byte {
	switch re.Op {
	case syntax.OpLiteral:
		return append(b, string(re.Rune)...)
	case syntax.OpCharClass:
		if len(re.Rune) > 0 {
			return append(b, string(classRune(re.Rune))...)
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return append(b, 'x')
	case syntax.OpCapture:
		return appendMatch(b, re.Sub[0], repeat)
	case syntax.OpStar, syntax.OpQuest, syntax.OpPlus:
		n := repeat
		if re.Op == syntax.OpPlus {
			n = max(n, 1)
		}
		if re.Op == syntax.OpQuest {
			n = min(n, 1)
		}
		for range n {
			if len(b) < 1<<10 { // nested repetitions multiply
				b = appendMatch(b, re.Sub[0], repeat)
			}
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			b = appendMatch(b, sub, repeat)
		}
	case syntax.OpAlternate:
		return appendMatch(b, re.Sub[0], repeat)
	}
	return b
}

// classRune prefers a rune that topic names may have.
func classRune(ranges []rune) rune {
	for i := 0; i+1 < len(ranges); i += 2 {
		for _, r := range "xa0X-._" {
			if ranges[i] <= r && r <= ranges[i+1] {
				return r
			}
		}
	}
	return ranges[0]
}
