package connect

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/aws"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// mechanism is for a SASL that Validate accepts. kgo asks it for every connection.
func mechanism(s SASL, log hclog.Logger) sasl.Mechanism {
	byScram := func(context.Context) (scram.Auth, error) {
		return scram.Auth{User: s.Username, Pass: s.password(log)}, nil
	}
	switch s.Mechanism {
	case ScramSHA256:
		return scram.Sha256(byScram)
	case ScramSHA512:
		return scram.Sha512(byScram)
	case AWSMSKIAM:
		return aws.ManagedStreamingIAM(s.AWS.credentials)
	case OAuthBearer:
		if s.TokenFile != nil {
			return oauth.Oauth((&fileTokens{file: s.TokenFile, log: log, now: time.Now}).authenticate)
		}
		return oauth.Oauth(newTokens(s, log).authenticate)
	default:
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			return plain.Auth{User: s.Username, Pass: s.password(log)}, nil
		})
	}
}

func (s SASL) password(log hclog.Logger) string {
	if s.PasswordFile != nil {
		return s.PasswordFile.read(log)
	}
	return s.Password
}

func (s SASL) clientSecret(log hclog.Logger) string {
	if s.ClientSecretFile != nil {
		return s.ClientSecretFile.read(log)
	}
	return s.ClientSecret
}
