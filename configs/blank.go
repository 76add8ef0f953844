package configs

import (
	"bytes"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// maxDepth bounds nesting: HCL's parser is recursive, and Go cannot recover from a stack that has no more room.
const maxDepth = 64

func opens(t hclsyntax.TokenType) bool {
	switch t {
	case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc,
		hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
		return true
	}
	return false
}

func closes(t hclsyntax.TokenType) bool {
	switch t {
	case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc,
		hclsyntax.TokenTemplateSeqEnd:
		return true
	}
	return false
}

// maxChain bounds the operators in one line, dots included: they nest like brackets.
const maxChain = 512

// maxLoops bounds for expressions in each other: each multiplies the time that the one around it takes.
const maxLoops = 2

// tooDeep finds the first place that is nested deeper than maxDepth or maxLoops, or after more operators than maxChain.
func tooDeep(src []byte, filename string) (hcl.Range, bool) {
	tokens, _ := hclsyntax.LexConfig(src, filename, hcl.InitialPos)
	var loop []bool // for each open bracket, whether it is a for expression's
	chain, loops := 0, 0
	for i, t := range tokens {
		switch {
		case opens(t.Type):
			begins := i+1 < len(tokens) && tokens[i+1].Type == hclsyntax.TokenIdent && string(tokens[i+1].Bytes) == "for"
			if loop = append(loop, begins); begins {
				loops++
			}
		case closes(t.Type) && len(loop) > 0:
			if loop[len(loop)-1] {
				loops--
			}
			loop = loop[:len(loop)-1]
		}
		switch t.Type {
		case hclsyntax.TokenNewline:
			chain = 0
		case hclsyntax.TokenBang, hclsyntax.TokenMinus, hclsyntax.TokenPlus, hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPercent,
			hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan, hclsyntax.TokenGreaterThan,
			hclsyntax.TokenLessThanEq, hclsyntax.TokenGreaterThanEq, hclsyntax.TokenQuestion, hclsyntax.TokenOBrack, hclsyntax.TokenDot:
			chain++
		}
		if len(loop) > maxDepth || chain > maxChain || loops > maxLoops {
			return t.Range, true
		}
	}
	return hcl.Range{}, false
}

// secretName says whether an identifier is, or is a misspelling of, the name of a secret. The misspelt ones matter: the
// message about them quotes the line.
func secretName(name string) bool {
	n := strings.ToLower(name)
	switch n {
	case "token_url":
		return false
	case "pw":
		return true
	}
	for _, part := range []string{"pass", "pasw", "pwd", "pswd", "secret", "secert", "sercet", "token", "credential"} {
		if strings.Contains(n, part) {
			return true
		}
	}
	return false
}

// publicInSASL are the attributes of a sasl block whose values may be quoted; any other value there may be a secret under a wrong name.
var publicInSASL = []string{"mechanism", "username", "token_url", "client_id"}

// blankSecrets is src with every character of a written secret replaced by '*', line breaks kept, and where they are.
// It works on tokens, not on the parsed file, so that it also covers a file that does not parse. It rather blanks too
// much: from a secret's name to the end of its logical line everything but env("NAME") and file("path").
func blankSecrets(src []byte, filename string) ([]byte, []hcl.Range) {
	tokens, _ := hclsyntax.LexConfig(src, filename, hcl.InitialPos)
	var hidden []hcl.Range
	inSASL, depth := 0, 0 // inSASL: depth at which the sasl block's body is, 0 outside
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		switch {
		case t.Type == hclsyntax.TokenIdent && inSASL == 0 && string(t.Bytes) == "sasl" && opensBlock(tokens[i+1:]):
			inSASL = depth + 1
		case t.Type == hclsyntax.TokenIdent && (secretName(string(t.Bytes)) ||
			inSASL > 0 && depth == inSASL && !slices.Contains(publicInSASL, string(t.Bytes))):
			end := logicalLine(tokens, i+1)
			hidden = append(hidden, secretRanges(tokens[i+1:end])...)
			i = end - 1
		case opens(t.Type):
			depth++
		case closes(t.Type):
			depth--
			if depth < inSASL {
				inSASL = 0
			}
		}
	}
	return blank(src, hidden), hidden
}

func opensBlock(rest hclsyntax.Tokens) bool {
	for _, t := range rest {
		switch t.Type {
		case hclsyntax.TokenOBrace:
			return true
		case hclsyntax.TokenNewline, hclsyntax.TokenEOF:
			return false
		}
	}
	return false
}

// logicalLine is the index of the token that ends the line begun before from: a line break outside of all brackets, or
// the closing bracket of what is around it.
func logicalLine(tokens hclsyntax.Tokens, from int) int {
	depth := 0
	for i := from; i < len(tokens); i++ {
		t := tokens[i].Type
		switch {
		case t == hclsyntax.TokenEOF || depth == 0 && t == hclsyntax.TokenNewline:
			return i
		case opens(t):
			depth++
		case closes(t):
			if depth == 0 {
				return i
			}
			depth--
		}
	}
	return len(tokens)
}

// secretRanges are the parts of a logical line to blank: all but the assignment and the first argument of env and file.
func secretRanges(line hclsyntax.Tokens) []hcl.Range {
	var out []hcl.Range
	for i := 0; i < len(line); i++ {
		if n := publicCall(line[i:]); n > 0 {
			i += n - 1
			continue
		}
		switch line[i].Type {
		case hclsyntax.TokenEqual, hclsyntax.TokenComma, hclsyntax.TokenCParen, hclsyntax.TokenNewline:
		default:
			out = append(out, line[i].Range)
		}
	}
	return out
}

// publicCall is the number of tokens of env("NAME or file("path at the beginning of line, 0 when it begins otherwise.
func publicCall(line hclsyntax.Tokens) int {
	want := []hclsyntax.TokenType{
		hclsyntax.TokenIdent, hclsyntax.TokenOParen, hclsyntax.TokenOQuote, hclsyntax.TokenQuotedLit, hclsyntax.TokenCQuote,
	}
	if len(line) < len(want) || !bytes.Equal(line[0].Bytes, []byte("env")) && !bytes.Equal(line[0].Bytes, []byte("file")) {
		return 0
	}
	for i, t := range want {
		if line[i].Type != t {
			return 0
		}
	}
	return len(want)
}

func blank(src []byte, hidden []hcl.Range) []byte {
	out := bytes.Clone(src)
	for _, r := range hidden {
		for i := r.Start.Byte; i < r.End.Byte && i < len(out); i++ {
			if out[i] != '\n' && out[i] != '\r' {
				out[i] = '*'
			}
		}
	}
	return out
}
