package server

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// levels are those of the configuration.
var levels = []string{"trace", "debug", "info", "warn", "error"}

func (s *Server) showLevel(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = fmt.Fprintln(w, s.log.GetLevel())
}

// setLevel is the one request that changes something: the level of everything that logs in this process, until it ends or
// SIGHUP sets that of the file.
func (s *Server) setLevel(w http.ResponseWriter, r *http.Request) {
	// A page that somebody on this machine looks at must not reach in here with their browser.
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		http.Error(w, "refused: a page of another origin asks for it", http.StatusForbidden)
		return
	}
	if !s.guarded() && !local(r) {
		http.Error(w, "without server.token the log level can be changed from this machine only, at a loopback address: set server.token, or send SIGHUP", http.StatusForbidden)
		return
	}
	asked := r.URL.Query()["level"]
	if len(asked) != 1 || !slices.Contains(levels, asked[0]) {
		http.Error(w, "say which level: PUT /log?level=LEVEL with one of "+strings.Join(levels, ", "), http.StatusBadRequest)
		return
	}
	SetLevel(s.log, asked[0], "PUT /log from "+r.RemoteAddr)
	s.showLevel(w, r)
}

// SetLevel sets the level of log and of all loggers that share it, and tells who asked at whichever of both levels tells more.
// level is one of the configuration's. Safe for concurrent use.
func SetLevel(log hclog.Logger, level, by string) {
	was, now := log.GetLevel(), hclog.LevelFromString(level)
	if now < was {
		log.SetLevel(now)
	}
	log.Info("log level", "was", was, "now", now, "by", by)
	log.SetLevel(now)
}

// local says whether the request comes from this machine, from nobody else through a proxy on it, and under a name that is its
// own: a page whose name was made to point at loopback is of the same origin as what it asks there.
func local(r *http.Request) bool {
	for _, h := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip"} {
		if r.Header.Get(h) != "" {
			return false
		}
	}
	return loopback(r.RemoteAddr) && loopback(r.Host)
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]") // without a port
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
