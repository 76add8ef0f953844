package configs

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"kafkabridge/connect"
)

// connection translates what source and sink blocks have in common: how to reach the cluster.
func (d *decoder) connection(def hcl.Range, brokers *hcl.Attribute, t *tlsGrammar, s *saslGrammar, clientID string) connect.Options {
	o := connect.Options{ClientID: clientID, Brokers: d.brokers(brokers, def), TLS: d.tls(t), SASL: d.sasl(s)}
	if o.SASL != nil && o.SASL.Mechanism == connect.AWSMSKIAM && t == nil {
		d.bad(s.Mechanism, "AWS_MSK_IAM is offered over TLS only: add an empty tls {} block beside sasl.")
	}
	return o
}

func (d *decoder) brokers(a *hcl.Attribute, def hcl.Range) []string {
	if !d.required(a, def, "brokers") {
		return nil
	}
	list := d.someTexts(a)
	for i, b := range list {
		if !strings.Contains(b, ":") {
			b += ":" + DefaultKafkaPort
		}
		if !validHostPort(b, 1) || strings.HasPrefix(b, ":") || strings.ContainsAny(b, "/ ,") {
			d.bad(a, `brokers takes a list of "host:port"; element %d is none%s.`, i+1, d.notElement(a, list[i]))
			return nil
		}
		list[i] = strings.ToLower(b)
	}
	return list
}

func (d *decoder) notElement(a *hcl.Attribute, s string) string {
	if v, diags := a.Expr.Value(d.ctx); diags.HasErrors() || v.ContainsMarked() {
		return ""
	}
	return ": " + strconv.Quote(s)
}

func validHostPort(s string, lowest int) bool {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	n, err := strconv.Atoi(port)
	return err == nil && n >= lowest && n <= 65535
}

func (d *decoder) tls(g *tlsGrammar) *connect.TLS {
	if g == nil {
		return nil
	}
	o := &connect.TLS{
		CAFile:             d.pathOf(g.CAFile),
		CertFile:           d.pathOf(g.CertFile),
		KeyFile:            d.pathOf(g.KeyFile),
		ServerName:         d.filled(g.ServerName),
		InsecureSkipVerify: d.boolean(g.InsecureSkipVerify, false),
	}
	if written(g.CertFile) != written(g.KeyFile) {
		d.errorAt(g.DefRange, "Incomplete tls block", "cert_file and key_file go together: the client's certificate and its key.")
	}
	if o.InsecureSkipVerify && (written(g.CAFile) || written(g.ServerName)) {
		d.bad(g.InsecureSkipVerify, "insecure_skip_verify = true makes ca_file and server_name pointless: nothing is verified then. Remove one or the other.")
	}
	return o
}

// pathOf is a path, made absolute from the configuration file's directory; empty when not written.
func (d *decoder) pathOf(a *hcl.Attribute) string {
	s := d.filled(a)
	if s == "" {
		return ""
	}
	return d.out.path(s)
}

// filled is a string that must not be empty when it is written.
func (d *decoder) filled(a *hcl.Attribute) string {
	s, ok := d.optText(a)
	if ok && s == "" {
		d.bad(a, "%s must not be empty; leave it out instead.", a.Name)
	}
	return s
}

func (d *decoder) sasl(g *saslGrammar) *connect.SASL {
	if g == nil {
		return nil
	}
	o := &connect.SASL{
		Username:     d.filled(g.Username),
		Password:     d.secret(g.Password),
		PasswordFile: d.secretFile(g.Password),
		TokenURL:     d.filled(g.TokenURL),
		ClientID:     d.filled(g.ClientID),
		ClientSecret: d.secret(g.ClientSecret),

		ClientSecretFile: d.secretFile(g.ClientSecret),
	}
	if !d.required(g.Mechanism, g.DefRange, "mechanism") {
		return o
	}
	before := len(d.diags)
	o.Mechanism = d.word(g.Mechanism, "", connect.Plain, connect.ScramSHA256, connect.ScramSHA512, connect.OAuthBearer, connect.AWSMSKIAM)
	if len(d.diags) > before || o.Mechanism == "" {
		return o
	}
	byPassword := []named{{"username", g.Username}, {"password", g.Password}}
	byToken := []named{{"token_url", g.TokenURL}, {"client_id", g.ClientID}, {"client_secret", g.ClientSecret}}
	byFile, byRole := []named{{"token_file", g.TokenFile}}, []named{{"profile", g.Profile}}
	switch {
	case o.Mechanism == connect.AWSMSKIAM:
		d.exactly(g, o.Mechanism, nil, slices.Concat(byPassword, byToken, byFile))
		o.AWS = connect.NewAWS(d.filled(g.Profile))
	case o.Mechanism == connect.OAuthBearer && written(g.TokenFile):
		d.exactly(g, o.Mechanism, nil, slices.Concat(byPassword, byRole))
		for _, n := range byToken {
			if written(n.attr) {
				d.errorAt(n.attr.NameRange, "Unsupported argument", "%s and token_file exclude each other: either a token is asked for with client credentials, or a file holds it.", n.name)
			}
		}
		o.TokenFile = d.tokenFile(g.TokenFile)
	case o.Mechanism == connect.OAuthBearer:
		d.exactly(g, o.Mechanism, byToken, slices.Concat(byPassword, byRole))
		d.tokenURL(g.TokenURL, o.TokenURL)
	default:
		d.exactly(g, o.Mechanism, byPassword, slices.Concat(byToken, byFile, byRole))
	}
	return o
}

// tokenFile is read now, so that a wrong path is told with its line. What it holds is hidden from every message.
func (d *decoder) tokenFile(a *hcl.Attribute) *connect.SecretFile {
	path := d.pathOf(a)
	if path == "" {
		return nil // reported already
	}
	f, token, err := connect.OpenSecretFile(path)
	if err != nil {
		d.bad(a, "token_file cannot be used: %v. It takes the path of a file with a token, not the token.", err)
		return nil
	}
	d.out.hide(token)
	return f
}

type named struct {
	name string
	attr *hcl.Attribute
}

// exactly wants all of the first attributes and none of the second: one that has no effect is a mistake in the
// mechanism or in the attribute, and both are better found here than by a broker that says no.
func (d *decoder) exactly(g *saslGrammar, mechanism string, need, refuse []named) {
	for _, n := range need {
		d.required(n.attr, g.DefRange, n.name)
	}
	for _, n := range refuse {
		if written(n.attr) {
			d.errorAt(n.attr.NameRange, "Unsupported argument", "%s has no meaning with mechanism = %q.", n.name, mechanism)
		}
	}
}

func (d *decoder) tokenURL(a *hcl.Attribute, s string) {
	if s == "" {
		return // reported already
	}
	u, err := url.Parse(s)
	if err != nil || !slices.Contains([]string{"http", "https"}, u.Scheme) || u.Host == "" || u.User != nil {
		d.bad(a, `token_url is an http or https address without a user name, such as "https://login.example.com/token".`)
	}
}

// secret is a password: byte for byte as it came from outside, and hidden from every message from here on.
func (d *decoder) secret(a *hcl.Attribute) string {
	s := d.filled(a)
	d.out.hide(s)
	if v, ok := d.value(a); ok && !v.ContainsMarked() && strings.HasSuffix(s, "\n") {
		d.bad(a, `%s ends with a line break, as every heredoc does. Use a string in quotes, env("NAME") or file("path").`, a.Name)
	}
	return s
}

// secretFile is the file of a secret that is exactly file("path"), which the connection reads again; nil otherwise.
func (d *decoder) secretFile(a *hcl.Attribute) *connect.SecretFile {
	v, ok := d.value(a)
	if !ok || v.Type() != cty.String {
		return nil // reported already
	}
	from := wholly(v)
	if from == nil || from.file == "" {
		return nil
	}
	return connect.NewSecretFile(from.file, from.raw)
}
