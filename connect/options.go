package connect

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Options say how to reach a cluster. Secrets are held here and nowhere else; String never shows them.
type Options struct {
	Brokers  []string // host:port; a missing port is 9092
	ClientID string   // shown in the brokers' logs and quotas; default "bridge"
	TLS      *TLS     // nil: plain text
	SASL     *SASL    // nil: no authentication
}

// TLS of a connection. An empty TLS means the system's roots. The files are read again for every new connection, so a
// renewed certificate needs no restart.
type TLS struct {
	CAFile             string
	CertFile, KeyFile  string // both or none: mTLS
	ServerName         string // default: the host of the broker's address
	InsecureSkipVerify bool   // anyone may pose as the broker: for tests only
}

// SASL of a connection. It never prints its secrets, whatever the verb.
type SASL struct {
	Mechanism          string // PLAIN | SCRAM-SHA-256 | SCRAM-SHA-512 | OAUTHBEARER | AWS_MSK_IAM
	Username, Password string
	TokenURL           string // OAUTHBEARER by client credentials
	ClientID           string
	ClientSecret       string
	// The files that password and client secret came from, if they came from files: then these are read again for every
	// new connection (client secret: for every token), so that a renewed one needs no restart.
	PasswordFile, ClientSecretFile *SecretFile
	// TokenFile is for OAUTHBEARER in place of the client credentials: the file of a token that somebody else renews.
	TokenFile *SecretFile
	// AWS is for AWS_MSK_IAM, and needed there: where the credentials are found.
	AWS *AWS
}

// Renewable says whether the broker's refusal may pass by itself, because a file, or AWS, can bring another secret.
func (s *SASL) Renewable() bool {
	return s != nil && (s.PasswordFile != nil || s.ClientSecretFile != nil || s.TokenFile != nil || s.AWS != nil)
}

// DefaultClientID is used when Options.ClientID is empty.
const DefaultClientID = "bridge"

// The mechanisms.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
	OAuthBearer = "OAUTHBEARER"
	AWSMSKIAM   = "AWS_MSK_IAM"
)

// EnsureDefaults replaces zero values.
func (o *Options) EnsureDefaults() {
	if o.ClientID == "" {
		o.ClientID = DefaultClientID
	}
}

// Validate reports all problems at once, without looking at files or the network.
func (o *Options) Validate() error {
	var errs []error
	if len(o.Brokers) == 0 {
		errs = append(errs, errors.New("brokers: none given"))
	}
	for _, b := range o.Brokers {
		if err := validateBroker(b); err != nil {
			errs = append(errs, err)
		}
	}
	if o.TLS != nil {
		errs = append(errs, o.TLS.validate()...)
	}
	if o.SASL != nil {
		errs = append(errs, o.SASL.validate()...)
		if o.SASL.Mechanism == AWSMSKIAM && o.TLS == nil {
			errs = append(errs, errors.New("sasl: mechanism AWS_MSK_IAM needs TLS: add tls {}"))
		}
	}
	return errors.Join(errs...)
}

// Loopback says whether only this machine can reach the address, which may be without a port.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// Exposed names the secret that a connection without TLS shows to everybody on the way; "" when there is none. Brokers on
// this machine do not count.
func (o *Options) Exposed() string {
	if o.TLS != nil || o.SASL == nil || !slices.ContainsFunc(o.Brokers, func(b string) bool { return !Loopback(b) }) {
		return ""
	}
	switch o.SASL.Mechanism {
	case Plain:
		return "the password"
	case OAuthBearer:
		return "the token"
	}
	return "" // SCRAM sends a proof, not the password
}

func validateBroker(b string) error {
	if b == "" || strings.ContainsAny(b, " \t/,@") {
		return fmt.Errorf("brokers: %q is not host:port (one address an entry, without a scheme)", b)
	}
	host, port, err := net.SplitHostPort(b)
	if err != nil {
		if !strings.Contains(b, ":") {
			return nil // the default port
		}
		return fmt.Errorf("brokers: %q is not host:port: %w", b, err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" {
		return fmt.Errorf("brokers: %q is not host:port with a port from 1 to 65535", b)
	}
	return nil
}

func (t *TLS) validate() (errs []error) {
	if (t.CertFile == "") != (t.KeyFile == "") {
		errs = append(errs, errors.New("tls: cert_file and key_file are needed together"))
	}
	if t.InsecureSkipVerify && (t.CAFile != "" || t.ServerName != "") {
		errs = append(errs, errors.New("tls: insecure_skip_verify makes ca_file and server_name meaningless: give one or the other"))
	}
	return errs
}

func (s *SASL) validate() (errs []error) {
	need := func(name, value string) {
		if value == "" {
			errs = append(errs, fmt.Errorf("sasl: %s is missing for mechanism %s", name, s.Mechanism))
		}
	}
	refuse := func(name, value string) {
		if value != "" {
			errs = append(errs, fmt.Errorf("sasl: %s is not for mechanism %s", name, s.Mechanism))
		}
	}
	switch s.Mechanism {
	case Plain, ScramSHA256, ScramSHA512:
		need("username", s.Username)
		need("password", s.Password)
		refuse("token_url", s.TokenURL)
		refuse("client_id", s.ClientID)
		refuse("client_secret", s.ClientSecret)
		refuse("token_file", s.TokenFile.text())
		refuse("profile", s.AWS.String())
	case OAuthBearer:
		if s.TokenFile != nil {
			refuse("token_url beside token_file", s.TokenURL)
			refuse("client_id beside token_file", s.ClientID)
			refuse("client_secret beside token_file", s.ClientSecret)
		} else {
			need("token_url", s.TokenURL)
			need("client_id", s.ClientID)
			need("client_secret", s.ClientSecret)
		}
		refuse("profile", s.AWS.String())
		refuse("username", s.Username)
		refuse("password", s.Password)
		if u, err := url.Parse(s.TokenURL); s.TokenURL != "" && (err != nil || u.Host == "" || !slices.Contains([]string{"http", "https"}, u.Scheme)) {
			// The URL is not repeated: it may carry a secret.
			errs = append(errs, errors.New("sasl: token_url is no http or https URL"))
		}
	case AWSMSKIAM:
		if s.AWS == nil {
			errs = append(errs, errors.New("sasl: mechanism AWS_MSK_IAM without a way to credentials"))
		}
		refuse("username", s.Username)
		refuse("password", s.Password)
		refuse("token_url", s.TokenURL)
		refuse("client_id", s.ClientID)
		refuse("client_secret", s.ClientSecret)
		refuse("token_file", s.TokenFile.text())
	default:
		errs = append(errs, fmt.Errorf("sasl: mechanism %q is none of %s, %s, %s, %s, %s", s.Mechanism, Plain, ScramSHA256, ScramSHA512, OAuthBearer, AWSMSKIAM))
	}
	return errs
}
