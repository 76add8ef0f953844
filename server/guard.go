package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"net/http"
	"strings"
)

// Options are what a surface has beyond its bridges. With the zero value whoever reaches it may read it.
type Options struct {
	TLS *tls.Config // nil: plain text
	// Token is the bearer token at this moment, and is asked for every request; nil: none is wanted.
	Token func() string
	// ClientCertificates says that TLS has verified the certificates that clients send, and that what wants a token wants one.
	ClientCertificates bool
	// Alive says why the process does not work any more; nil: it works as long as it answers. Safe from any goroutine.
	Alive func() error
}

// Use sets the options. It is called before Start and Handler.
func (s *Server) Use(o Options) { s.o = o }

// guard keeps what holds data for those who may read it, and out of caches.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if code, why := s.refuses(r); code != 0 {
			if code == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", `Bearer realm="bridge"`)
			}
			http.Error(w, why, code)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// guarded says whether anybody is refused.
func (s *Server) guarded() bool { return s.o.Token != nil || s.o.ClientCertificates }

// refuses is the status of who may not read, and why; 0 for who may.
func (s *Server) refuses(r *http.Request) (code int, why string) {
	if s.o.ClientCertificates && (r.TLS == nil || len(r.TLS.PeerCertificates) == 0) {
		return http.StatusForbidden, "a client certificate is needed (server.tls.client_ca_file)"
	}
	if s.o.Token != nil && !hasToken(r, s.o.Token()) {
		return http.StatusUnauthorized, "the token is needed: send Authorization: Bearer TOKEN (server.token)"
	}
	return 0, ""
}

// hasToken compares digests, so that the time tells neither characters nor the length.
func hasToken(r *http.Request, want string) bool {
	scheme, sent, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	a, b := sha256.Sum256([]byte(strings.TrimSpace(sent))), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && want != "" && strings.EqualFold(scheme, "Bearer")
}
