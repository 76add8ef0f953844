package main

import (
	"github.com/hashicorp/go-hclog"

	"kafkabridge/configs"
	"kafkabridge/semantics"
	"kafkabridge/server"
)

// surface is what the server block asks for. The certificate is read once, so that a wrong path is found at the start.
func surface(o configs.ServerOptions, log hclog.Logger) (server.Options, error) {
	var out server.Options
	if o.Token != nil {
		out.Token = func() string { return o.Token.Text(log) }
	}
	if o.TLS == nil || o.Listen == "" {
		return out, nil
	}
	var err error
	if out.TLS, err = o.TLS.ServerConfig(log); err != nil {
		return out, semantics.Misconfigured("server", "%w", err)
	}
	out.ClientCertificates = o.TLS.ClientCAFile != ""
	return out, nil
}

// surface checks the server block's files, and warns about what is open to more than may be meant.
func (v *validation) surface(file *configs.File, offline bool) {
	for _, w := range file.Server.Warnings() {
		v.warnings = append(v.warnings, "warning: "+w) // it names its block itself
	}
	if offline {
		return
	}
	v.where = "server"
	_, err := surface(file.Server, v.log)
	v.check(err)
}
