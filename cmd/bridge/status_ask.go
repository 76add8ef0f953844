package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"kafkabridge/bridge"
	"kafkabridge/configs"
	"kafkabridge/connect"
	"kafkabridge/semantics"
	"kafkabridge/server"
)

// statusTimeout bounds the question to the daemon, maxStatusBytes its answer.
const (
	statusTimeout  = 5 * time.Second
	maxStatusBytes = 64 << 20
)

var errNoDaemon = errors.New("no daemon is running")

// notOursError says that who listens at the address is not the daemon of this file.
type notOursError struct{ listen, why string }

func (e *notOursError) Error() string {
	return fmt.Sprintf("who listens at %s is not the daemon of this file: it %s; set server.listen when two share a machine", e.listen, e.why)
}

// askDaemon gets the document of a running daemon, errNoDaemon when nobody listens.
func askDaemon(env environment, file *configs.File) (d server.Document, err error) {
	listen := file.Server.Listen
	if listen == "" {
		return d, errNoDaemon
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return d, semantics.Misconfigured("status", "server.listen %q: %w", listen, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // it listens on all addresses, this one among them
	}
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	ctx, release := env.stoppable(ctx)
	defer release()
	resp, err := get(ctx, net.JoinHostPort(host, port), file.Server)
	var plain tls.RecordHeaderError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return d, errNoDaemon
	case errors.Is(err, connect.ErrOtherCertificate):
		return d, &notOursError{listen, "has another certificate than server.tls.cert_file"}
	case errors.As(err, &plain):
		return d, &notOursError{listen, "does not speak TLS, and this file has server.tls (was it added after the start?)"}
	case err != nil:
		return d, fmt.Errorf("ask the daemon at %s: %w", listen, err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return d, &notOursError{listen, "answers " + resp.Status + ": server.token and server.tls are not those that the daemon was started with"}
	case resp.StatusCode == http.StatusBadRequest && file.Server.TLS == nil:
		return d, &notOursError{listen, "answers " + resp.Status + ", most likely it speaks TLS, and this file has no server.tls"}
	case resp.StatusCode != http.StatusOK:
		return d, &notOursError{listen, "answers " + resp.Status}
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxStatusBytes)).Decode(&d); err != nil {
		return d, &notOursError{listen, "answers no status (" + err.Error() + ")"}
	}
	for _, b := range file.Bridges {
		if !slices.ContainsFunc(d.Bridges, func(s bridge.Status) bool { return s.Bridge == b.Options.Name }) {
			return d, &notOursError{listen, fmt.Sprintf("has no bridge %q", b.Options.Name)}
		}
	}
	return d, nil
}

// get asks without a proxy, which is for the world outside, and follows nobody elsewhere: the token is for the daemon.
func get(ctx context.Context, address string, o configs.ServerOptions) (*http.Response, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	scheme := "http"
	if o.TLS != nil {
		var err error
		if transport.TLSClientConfig, err = o.TLS.ClientConfig(); err != nil {
			return nil, err
		}
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+"/status", nil)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	if o.Token != nil {
		req.Header.Set("Authorization", "Bearer "+o.Token.Text(hclog.NewNullLogger()))
	}
	cl := http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return cl.Do(req)
}
