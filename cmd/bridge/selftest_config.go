package main

import (
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"kafkabridge/connect"
)

// writeConfig writes the configuration of the bridge that is killed: nothing that a user could not write. Secrets are not in it; they
// go to the bridge through its environment.
func (s *selftest) writeConfig() error {
	file := hclwrite.NewEmptyFile()
	b := file.Body().AppendNewBlock("bridge", []string{s.names.Bridge}).Body()
	setText(b, "semantic", "EXACTLY_ONCE")
	source := b.AppendNewBlock("source", []string{"source"}).Body()
	setTexts(source, "topics", s.names.Source)
	setConnection(source, s.source.o, sourceSecret)
	sink := b.AppendNewBlock("sink", []string{"sink"}).Body()
	setText(sink, "topic", s.names.Sink)
	setText(sink, "ledger_topic", s.names.Ledger)
	setText(sink, "transaction_timeout", s.TransactionTimeout.String())
	sink.SetAttributeValue("create_topics", cty.False)
	setConnection(sink, s.sink.o, sinkSecret)
	checkpoint := b.AppendNewBlock("checkpoint", nil).Body()
	setText(checkpoint, "path", s.statePath())
	setText(checkpoint, "interval", s.interval().String())
	// A barrier that takes half of the transaction's time fails here, and is not found aborted by the brokers.
	setText(checkpoint, "timeout", (s.TransactionTimeout / 2).String())
	setText(file.Body().AppendNewBlock("server", nil).Body(), "listen", "")
	setText(file.Body().AppendNewBlock("log", nil).Body(), "format", "json")
	if err := os.WriteFile(s.configPath(), file.Bytes(), 0o600); err != nil {
		return fmt.Errorf("configuration of the bridge: %w: make room there, or set TMPDIR", err)
	}
	return nil
}

// interval is short, so that a kill hits a step soon; several fit into the transaction timeout.
func (s *selftest) interval() time.Duration { return min(500*time.Millisecond, s.TransactionTimeout/8) }

// The variables with the secrets of the two connections; _PASSWORD or _CLIENT_SECRET follows.
const (
	sourceSecret = "BRIDGE_SELFTEST_SOURCE"
	sinkSecret   = "BRIDGE_SELFTEST_SINK"
)

func setConnection(b *hclwrite.Body, o connect.Options, variable string) {
	setTexts(b, "brokers", o.Brokers...)
	if t := o.TLS; t != nil {
		tls := b.AppendNewBlock("tls", nil).Body()
		setText(tls, "ca_file", t.CAFile)
		setText(tls, "cert_file", t.CertFile)
		setText(tls, "key_file", t.KeyFile)
		setText(tls, "server_name", t.ServerName)
		tls.SetAttributeValue("insecure_skip_verify", cty.BoolVal(t.InsecureSkipVerify))
	}
	if a := o.SASL; a != nil {
		sasl := b.AppendNewBlock("sasl", nil).Body()
		setText(sasl, "mechanism", a.Mechanism)
		setText(sasl, "username", a.Username)
		setText(sasl, "token_url", a.TokenURL)
		setText(sasl, "client_id", a.ClientID)
		switch {
		case a.TokenFile != nil:
			setText(sasl, "token_file", a.TokenFile.String())
		case a.Mechanism == connect.AWSMSKIAM:
			setText(sasl, "profile", a.AWS.String())
		case a.Mechanism == connect.OAuthBearer:
			setEnv(sasl, "client_secret", variable+"_CLIENT_SECRET")
		default:
			setEnv(sasl, "password", variable+"_PASSWORD")
		}
	}
}

// setText leaves an attribute out that has no value, except listen, which means something then.
func setText(b *hclwrite.Body, name, value string) {
	if value != "" || name == "listen" {
		b.SetAttributeValue(name, cty.StringVal(value))
	}
}

func setTexts(b *hclwrite.Body, name string, values ...string) {
	list := make([]cty.Value, len(values))
	for i, v := range values {
		list[i] = cty.StringVal(v)
	}
	b.SetAttributeValue(name, cty.TupleVal(list))
}

func setEnv(b *hclwrite.Body, name, variable string) {
	b.SetAttributeRaw(name, hclwrite.TokensForFunctionCall("env", hclwrite.TokensForValue(cty.StringVal(variable))))
}

// secrets are the variables that the configuration names.
func (s *selftest) secrets() []string {
	var env []string
	for _, c := range []struct {
		variable string
		sasl     *connect.SASL
	}{{sourceSecret, s.source.o.SASL}, {sinkSecret, s.sink.o.SASL}} {
		if c.sasl != nil {
			env = append(env, c.variable+"_PASSWORD="+c.sasl.Password, c.variable+"_CLIENT_SECRET="+c.sasl.ClientSecret)
		}
	}
	return env
}
