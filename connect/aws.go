package connect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/processcreds"
	"github.com/twmb/franz-go/pkg/sasl/aws"
)

// awsTimeout bounds one look for credentials: the last of the chain, an instance's own address, is silent outside of EC2.
const awsTimeout = 10 * time.Second

// AWS finds credentials in the order of AWS's own tools: environment, web identity (EKS), shared files, container,
// instance. Those that end are renewed before they do. It never prints them. Safe for concurrent use; one per connection
// block, so that all its clients share what was found.
type AWS struct {
	profile string // of the shared files; "" is the environment's or the default

	mu       sync.Mutex
	provider sdk.CredentialsProvider // a cache; nil until it was made
	seen     []string                // the secret parts that were used lately, newest last
}

// NewAWS takes the profile of the shared configuration files; "" leaves it to the environment.
func NewAWS(profile string) *AWS { return &AWS{profile: profile} }

// String is the profile.
func (a *AWS) String() string {
	if a == nil {
		return ""
	}
	return a.profile
}

// credentials is kgo's callback, called for every connection and each time the broker wants proof again.
func (a *AWS) credentials(ctx context.Context) (aws.Auth, error) {
	ctx, cancel := context.WithTimeout(ctx, awsTimeout)
	defer cancel()
	provider, err := a.chain(ctx)
	if err != nil {
		return aws.Auth{}, &credentialsError{err}
	}
	c, err := provider.Retrieve(ctx)
	if err != nil {
		return aws.Auth{}, &credentialsError{err}
	}
	if !c.HasKeys() {
		return aws.Auth{}, &credentialsError{errors.New("the credentials are empty")}
	}
	a.used(c.SecretAccessKey, c.SessionToken)
	return aws.Auth{AccessKey: c.AccessKeyID, SecretKey: c.SecretAccessKey, SessionToken: c.SessionToken, UserAgent: DefaultClientID}, nil
}

// chain is made when it is first needed, so that a configuration can be checked on a machine without credentials.
func (a *AWS) chain(ctx context.Context) (sdk.CredentialsProvider, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.provider != nil {
		return a.provider, nil
	}
	var options []func(*config.LoadOptions) error
	if a.profile != "" {
		options = append(options, config.WithSharedConfigProfile(a.profile))
	}
	c, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("load the AWS configuration: %w", err)
	}
	if c.Credentials == nil {
		return nil, errors.New("there are none")
	}
	a.provider = c.Credentials
	return a.provider, nil
}

func (a *AWS) used(secrets ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range secrets {
		if s != "" && !slices.Contains(a.seen, s) {
			a.seen = append(a.seen, s)
		}
	}
	a.seen = a.seen[max(0, len(a.seen)-2*seenSecrets):]
}

func (a *AWS) all() []string {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.seen)
}

// credentialsError is a failure before the broker was asked anything. Its text holds no credentials.
type credentialsError struct{ err error }

func (e *credentialsError) Error() string {
	var process *processcreds.ProviderError
	if errors.As(e.err, &process) {
		// Its text may repeat all that the process has printed, which is the credentials.
		return "AWS credentials: credential_process of the profile fails, or prints something else beside its JSON: run it and look"
	}
	return "AWS credentials: " + e.err.Error()
}

func (e *credentialsError) Unwrap() error { return e.err }
