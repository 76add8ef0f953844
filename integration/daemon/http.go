package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// requestTimeout bounds one request; the paths answer from memory.
const requestTimeout = 2 * time.Second

// get returns status code and body of a path; an error means that nothing answered.
func (d *Daemon) get(ctx context.Context, path string) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.listen+path, nil)
	if err != nil {
		return 0, nil, fmt.Errorf("daemon: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("daemon: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return 0, nil, fmt.Errorf("daemon: %s: %w", path, err)
	}
	return resp.StatusCode, body, nil
}

// Ready asks /readyz.
func (d *Daemon) Ready(ctx context.Context) bool {
	code, _, err := d.get(ctx, "/readyz")
	return err == nil && code == http.StatusOK
}

// WhyNotReady returns the body of /readyz.
func (d *Daemon) WhyNotReady(ctx context.Context) string {
	_, body, err := d.get(ctx, "/readyz")
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// Status returns the text of /status, which must be JSON.
func (d *Daemon) Status(ctx context.Context) (string, error) {
	code, body, err := d.get(ctx, "/status")
	if err != nil {
		return "", err
	}
	if code != http.StatusOK || !json.Valid(body) {
		return "", fmt.Errorf("daemon: /status answers %d: %s", code, body)
	}
	return string(body), nil
}

// Metrics asks /metrics.
func (d *Daemon) Metrics(ctx context.Context) (Metrics, error) {
	code, body, err := d.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	if code != http.StatusOK {
		return nil, fmt.Errorf("daemon: /metrics answers %d: %s", code, body)
	}
	return parseMetrics(string(body))
}
