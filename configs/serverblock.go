package configs

import (
	"strconv"

	"github.com/hashicorp/hcl/v2"

	"kafkabridge/connect"
)

// server translates the server block.
func (d *decoder) server(g *serverGrammar) ServerOptions {
	if g == nil {
		g = &serverGrammar{}
	}
	o := ServerOptions{Listen: d.text(g.Listen, DefaultListen), Token: d.token(g.Token), TLS: d.serverTLS(g.TLS)}
	if o.Listen != "" {
		if !validHostPort(o.Listen, 0) {
			d.bad(g.Listen, `listen is "host:port" with a port from 0 to 65535, as in %q; "" turns the server off.`, DefaultListen)
		}
	}
	return o
}

// token is nil when none is written. One that no header can carry would lock everybody out.
func (d *decoder) token(a *hcl.Attribute) *connect.Secret {
	text := d.secret(a)
	if text == "" {
		return nil
	}
	if err := connect.InHeader(text); err != nil {
		d.bad(a, "token: %v.", err)
	}
	return connect.NewSecret(text, d.secretFile(a))
}

func (d *decoder) serverTLS(g *serverTLSGrammar) *connect.ServerTLS {
	if g == nil {
		return nil
	}
	d.required(g.CertFile, g.DefRange, "cert_file")
	d.required(g.KeyFile, g.DefRange, "key_file")
	return &connect.ServerTLS{CertFile: d.pathOf(g.CertFile), KeyFile: d.pathOf(g.KeyFile), ClientCAFile: d.pathOf(g.ClientCAFile)}
}

// Warnings are what may be meant, and is dangerous if it is not: one line each, with what to do.
func (o ServerOptions) Warnings() []string {
	if o.Listen == "" || connect.Loopback(o.Listen) {
		return nil
	}
	switch {
	case o.Token == nil && (o.TLS == nil || o.TLS.ClientCAFile == ""):
		return []string{"server.listen " + strconv.Quote(o.Listen) + " is not on loopback, and there is neither server.token nor tls.client_ca_file: " +
			"whoever reaches it reads topic names, positions and errors; set server.token, or listen on 127.0.0.1"}
	case o.Token != nil && o.TLS == nil:
		return []string{"server.listen " + strconv.Quote(o.Listen) + " is not on loopback, and there is no server.tls: " +
			"the token crosses the network in plain text; add tls to the server block, or let a proxy on this machine do it"}
	}
	return nil
}
