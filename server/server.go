// Package server is the HTTP surface of the daemon: health, readiness, status, Prometheus metrics and the log level. It reads
// what bridges show of themselves; the log level is the one thing that it changes.
//
// Who may read what: with a token, /status, /metrics and /log want it; /healthz, /readyz and the files of the page never do,
// since probes have no token and the files hold no data. /readyz tells the reason only to those who may read.
package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"

	"kafkabridge/bridge"
)

// Bridge is what the server reads; *bridge.Bridge is one. Status is safe from any goroutine.
type Bridge interface {
	Status() bridge.Status
}

// Document is the body of GET /status and of bridge status -o json.
type Document struct {
	Version string          `json:"version"`
	Ready   bool            `json:"ready"`
	Bridges []bridge.Status `json:"bridges"`
}

// Server answers on one address. The zero value is of no use; see New.
type Server struct {
	version string
	bridges []Bridge
	metrics *Metrics
	log     hclog.Logger
	o       Options
	http    *http.Server
	done    chan error
}

// The limits that keep a slow or hostile client from holding the process.
const (
	readTimeout    = 5 * time.Second // header and body; also the TLS handshake
	writeTimeout   = 30 * time.Second
	idleTimeout    = 10 * time.Second // connections are few, and whoever keeps them all keeps probes out
	maxHeaderBytes = 16 << 10
	maxBodyBytes   = 4 << 10 // no request needs one
	maxConnections = 256     // at the same time; more wait to be accepted
	shutdownGrace  = 2 * time.Second
)

// New makes a server over bridges; metrics has seen their observations from the start.
func New(version string, bridges []Bridge, metrics *Metrics, log hclog.Logger) *Server {
	s := &Server{version: version, bridges: bridges, metrics: metrics, log: log}
	metrics.read = bridges
	return s
}

// Start listens on address, host:port, and serves until Close. The error names the address.
func (s *Server) Start(address string) (net.Addr, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("server.listen %q: %w", address, err)
	}
	s.start(l)
	return l.Addr(), nil
}

// start serves what l accepts.
func (s *Server) start(l net.Listener) {
	l = netutil.LimitListener(l, maxConnections)
	if s.o.TLS != nil {
		l = tls.NewListener(l, s.o.TLS)
	}
	s.http = &http.Server{Handler: s.Handler(), ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: s.log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug})}
	s.done = make(chan error, 1)
	go s.serve(l)
}

func (s *Server) serve(l net.Listener) { s.done <- s.http.Serve(l) }

// Close stops serving, within seconds.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close()
	}
	if err := <-s.done; err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// Handler serves all paths of the contract.
func (s *Server) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.metrics, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	mux := http.NewServeMux()
	page(mux)
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /status", s.guard(http.HandlerFunc(s.status)))
	mux.Handle("GET /log", s.guard(http.HandlerFunc(s.showLevel)))
	mux.Handle("PUT /log", s.guard(http.HandlerFunc(s.setLevel)))
	mux.Handle("GET /metrics", s.guard(promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})))
	return bounded(mux)
}

// bounded refuses what is too much, or does not say how much it is, without reading it. http.MaxBytesHandler was rejected: it
// bounds what a handler reads, and here none does.
func bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength < 0 || r.ContentLength > maxBodyBytes {
			w.Header().Set("Connection", "close")
			http.Error(w, "no request here needs a body", http.StatusRequestEntityTooLarge)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// healthz is 200 while the process works. One that waits for a broker works: to kill it would not bring the broker back.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if s.o.Alive != nil {
		if err := s.o.Alive(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintln(w, err)
			return
		}
	}
	_, _ = fmt.Fprintln(w, "ok")
}

// readyz is 200 only when every bridge is running, and says why not otherwise.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	d := s.document()
	if !d.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	code, _ := s.refuses(r)
	for _, b := range d.Bridges {
		if b.Ready {
			_, _ = fmt.Fprintf(w, "%s: ready\n", b.Bridge)
			continue
		}
		if code != 0 { // the reason may name brokers and topics
			_, _ = fmt.Fprintf(w, "%s: not ready\n", b.Bridge)
			continue
		}
		_, _ = fmt.Fprintf(w, "%s: not ready: %s\n", b.Bridge, b.Reason)
	}
}

func (s *Server) document() Document {
	d := Document{Version: s.version, Ready: true, Bridges: []bridge.Status{}}
	for _, b := range s.bridges {
		st := b.Status()
		d.Ready = d.Ready && st.Ready
		d.Bridges = append(d.Bridges, st)
	}
	return d
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(s.document()); err != nil {
		s.log.Debug("status was not sent", "error", err)
	}
}
