package connect

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// proofs is a broker with a TLS port that takes a SASL mechanism which kfake does not know, and keeps what clients send.
type proofs struct {
	mu     sync.Mutex
	got    [][]byte
	refuse bool
}

func (p *proofs) last(t *testing.T) []byte {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.got) == 0 {
		t.Fatal("nobody authenticated")
	}
	return p.got[len(p.got)-1]
}

func proofBroker(t *testing.T, mechanism string, tlsConfig *tls.Config) (*proofs, []string) {
	t.Helper()
	opts := []kfake.Opt{kfake.NumBrokers(1)}
	if tlsConfig != nil {
		opts = append(opts, kfake.TLS(tlsConfig))
	}
	c, err := kfake.NewCluster(opts...)
	must(t, err)
	t.Cleanup(c.Close)
	p := &proofs{}
	c.ControlKey(17, func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
		resp.SupportedMechanisms = []string{mechanism}
		if req.(*kmsg.SASLHandshakeRequest).Mechanism != mechanism {
			resp.ErrorCode = kerr.UnsupportedSaslMechanism.Code
		}
		return resp, nil, true
	})
	c.ControlKey(36, func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.got = append(p.got, req.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes)
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.SASLAuthBytes = []byte(`{"version":"2020_10_22"}`)
		if mechanism == OAuthBearer {
			resp.SASLAuthBytes = nil
		}
		if p.refuse {
			// A broker that repeats what it was sent.
			resp.ErrorCode, resp.ErrorMessage = kerr.SaslAuthenticationFailed.Code, kmsg.StringPtr("no: "+string(p.got[len(p.got)-1]))
		}
		return resp, nil, true
	})
	return p, c.ListenAddrs()
}

// noAWS hides what the machine's own environment says.
func noAWS(t *testing.T) {
	t.Helper()
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_DEFAULT_REGION", "AWS_REGION", "AWS_ENDPOINT_URL_STS"} {
		t.Setenv(name, "")
	}
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("AWS_CONFIG_FILE", none)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", none)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

func awsOptions(t *testing.T) (*proofs, Options) {
	t.Helper()
	ca := newAuthority(t)
	p, brokers := proofBroker(t, AWSMSKIAM, ca.server(t, "localhost"))
	file := write(t, filepath.Join(t.TempDir(), "ca.pem"), ca.pem)
	return p, Options{Brokers: brokers, TLS: &TLS{CAFile: file}, SASL: &SASL{Mechanism: AWSMSKIAM, AWS: NewAWS("")}}
}

// signed checks the payload's structure and signature with AWS's own signer, which shares no code with franz-go's.
func signed(t *testing.T, payload []byte, region string, c sdk.Credentials) {
	t.Helper()
	var got map[string]string
	must(t, json.Unmarshal(payload, &got))
	at, err := time.Parse("20060102T150405Z", got["x-amz-date"])
	must(t, err)
	if age := time.Since(at); age < -time.Minute || age > time.Minute {
		t.Errorf("signed for %v, %v ago", at, age)
	}
	req, err := http.NewRequest(http.MethodGet, "https://"+got["host"]+"/?"+url.Values{"Action": {"kafka-cluster:Connect"}, "X-Amz-Expires": {"900"}}.Encode(), nil)
	must(t, err)
	const emptyBody = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // SHA-256 of nothing
	signedURL, _, err := v4.NewSigner().PresignHTTP(context.Background(), c, req, emptyBody, "kafka-cluster", region, at)
	must(t, err)
	u, err := url.Parse(signedURL)
	must(t, err)
	want := map[string]string{"version": "2020_10_22", "host": "127.0.0.1", "user-agent": "bridge"}
	for name, values := range u.Query() {
		want[strings.ToLower(name)] = values[0]
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("payload\n%v\nwant\n%v", got, want)
	}
}

func TestMSKIAMByTheEnvironment(t *testing.T) {
	noAWS(t)
	p, o := awsOptions(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", planted)
	t.Setenv("AWS_SESSION_TOKEN", planted+"+/session=")
	log, err := tryOut(t, o)
	if err == nil || !strings.Contains(err.Error(), "set AWS_REGION") {
		t.Fatalf("no region in 127.0.0.1 and none in the environment: %v", err)
	}
	t.Setenv("AWS_REGION", "eu-central-1")
	more, err := tryOut(t, o)
	must(t, err)
	signed(t, p.last(t), "eu-central-1", sdk.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: planted, SessionToken: planted + "+/session="})
	p.mu.Lock()
	p.refuse = true
	p.mu.Unlock()
	again, err := tryOut(t, o)
	if err == nil || !strings.Contains(err.Error(), "kafka-cluster:Connect") {
		t.Errorf("%v", err)
	}
	if text := log + more + again + fmt.Sprint(err); strings.Contains(text, planted) {
		t.Errorf("the secret is shown: %s", text)
	}
}

func TestMSKIAMByWebIdentity(t *testing.T) {
	noAWS(t)
	p, o := awsOptions(t)
	var calls int
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++ // one call at a time: the cache sees to it
		if r.FormValue("Action") != "AssumeRoleWithWebIdentity" || r.FormValue("RoleArn") != "arn:aws:iam::123456789012:role/bridge" || r.FormValue("WebIdentityToken") != "web-"+planted {
			t.Errorf("request %v", r.Form)
		}
		_, _ = fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>
<AccessKeyId>ASIAEXAMPLE</AccessKeyId><SecretAccessKey>%s</SecretAccessKey><SessionToken>session-%s</SessionToken><Expiration>%s</Expiration>
</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, planted, planted, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}))
	t.Cleanup(sts.Close)
	t.Setenv("AWS_REGION", "us-west-2")
	t.Setenv("AWS_ENDPOINT_URL_STS", sts.URL)
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/bridge")
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", write(t, filepath.Join(t.TempDir(), "token"), []byte("web-"+planted)))
	for range 2 {
		log, err := tryOut(t, o)
		must(t, err)
		if strings.Contains(log, planted) {
			t.Errorf("the secret is shown: %s", log)
		}
	}
	signed(t, p.last(t), "us-west-2", sdk.Credentials{AccessKeyID: "ASIAEXAMPLE", SecretAccessKey: planted, SessionToken: "session-" + planted})
	if calls != 1 {
		t.Errorf("%d requests to STS for two clients, want 1", calls)
	}
}

func TestMSKIAMWithoutCredentials(t *testing.T) {
	noAWS(t)
	t.Setenv("AWS_REGION", "eu-central-1")
	_, o := awsOptions(t)
	_, err := tryOut(t, o)
	if err == nil || !strings.Contains(err.Error(), "no AWS credentials could be got") {
		t.Errorf("%v", err)
	}
	o.TLS = nil
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "needs TLS") {
		t.Errorf("%v", err)
	}
}

// TestMSKIAMByAProcess: what credential_process prints is the credentials, and the SDK's error repeats it where it is no JSON, as
// behind a line with a warning.
func TestMSKIAMByAProcess(t *testing.T) {
	noAWS(t)
	t.Setenv("AWS_REGION", "eu-central-1")
	said := write(t, filepath.Join(t.TempDir(), "said"), fmt.Appendf(nil, "warning: old version\n"+`{"Version": 1, "AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": "%s"}`, planted))
	t.Setenv("AWS_CONFIG_FILE", write(t, filepath.Join(t.TempDir(), "config"), []byte("[default]\ncredential_process = cat "+said+"\n")))
	_, o := awsOptions(t)
	log, err := tryOut(t, o)
	if err == nil || !strings.Contains(err.Error(), "credential_process") {
		t.Errorf("%v", err)
	}
	if text := log + fmt.Sprint(err); strings.Contains(text, planted) {
		t.Errorf("the secret is shown: %s", text)
	}
}
