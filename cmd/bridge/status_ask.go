package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"syscall"
	"time"

	"kafkabridge/bridge"
	"kafkabridge/configs"
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
	resp, err := get(ctx, "http://"+net.JoinHostPort(host, port)+"/status")
	if errors.Is(err, syscall.ECONNREFUSED) {
		return d, errNoDaemon
	}
	if err != nil {
		return d, fmt.Errorf("ask the daemon at %s: %w", listen, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
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

// get asks without a proxy, which is for the world outside, and follows nobody elsewhere.
func get(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	cl := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return cl.Do(req)
}
