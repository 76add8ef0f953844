package connect

import (
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// mechanism is for a SASL that Validate accepts.
func mechanism(s SASL) sasl.Mechanism {
	switch s.Mechanism {
	case ScramSHA256:
		return scram.Auth{User: s.Username, Pass: s.Password}.AsSha256Mechanism()
	case ScramSHA512:
		return scram.Auth{User: s.Username, Pass: s.Password}.AsSha512Mechanism()
	case OAuthBearer:
		return oauth.Oauth(newTokens(s).authenticate)
	default:
		return plain.Auth{User: s.Username, Pass: s.Password}.AsMechanism()
	}
}
