// Package tracing sends traces of epochs and recoveries to an OpenTelemetry collector, when the standard environment variables
// name one. It makes spans of what bridges observe of themselves, after the fact: nothing on a record's way knows of it.
package tracing

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"kafkabridge/bridge"
	"kafkabridge/semantics"
)

const (
	closeTimeout  = 3 * time.Second // for what is queued when the process ends; a collector that is away must not hold it up
	complainEvery = time.Minute     // about a collector that does not take traces
)

// Tracer makes spans of observations. A nil Tracer, which is what there is when nobody asks for traces, does nothing. Its methods are
// safe for concurrent use.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// FromEnvironment makes the Tracer that the standard variables (OTEL_EXPORTER_OTLP_ENDPOINT and its relatives) ask for, nil when they ask
// for none. Nothing is connected to yet. What it cannot do is an error with exit code 2.
func FromEnvironment(version string, log hclog.Logger, getenv func(string) string) (*Tracer, error) {
	first := func(names ...string) (name, value string) {
		for _, n := range names {
			if v := strings.TrimSpace(getenv(n)); v != "" {
				return n, v
			}
		}
		return "", ""
	}
	name, endpoint := first("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	if endpoint == "" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || strings.EqualFold(getenv("OTEL_TRACES_EXPORTER"), "none") {
		return nil, nil
	}
	const op = "set up traces"
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		// The value is not repeated: it may carry a password.
		return nil, semantics.Misconfigured(op, "%s is no http or https URL, as in http://localhost:4318", name)
	}
	if name, p := first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); p != "" && p != "http/protobuf" {
		return nil, semantics.Misconfigured(op, "%s = %q is not supported: set it to http/protobuf and let the endpoint name the collector's HTTP port (4318 by default)", name, p)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		if !headers(getenv(name)) {
			// Not repeated either: headers are how collectors are told a token.
			return nil, semantics.Misconfigured(op, "%s is no list of headers: write NAME=VALUE,NAME=VALUE with values encoded as in URLs (%%20 for a space)", name)
		}
	}
	return newTracer(version, log)
}

// headers says whether the exporter understands all of the list. It would leave out what it does not, and the collector refuse all traces.
func headers(list string) bool {
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, found := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		odd := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r) } // RFC 9110, 5.6.2
		if _, err := url.PathUnescape(value); err != nil || !found || name == "" || strings.ContainsFunc(name, odd) {
			return false
		}
	}
	return true
}

func newTracer(version string, log hclog.Logger) (*Tracer, error) {
	const op = "set up traces"
	// The library would write both to stderr in a form of its own, as often as it likes, and the values of headers with it.
	otel.SetLogger(logr.Discard())
	otel.SetErrorHandler(&complaints{log: log})
	ctx := context.Background()
	exporter, err := otlptracehttp.New(ctx) // it reads endpoint, headers, certificates and timeout from the environment
	if err != nil {
		return nil, semantics.Misconfigured(op, "the OTLP exporter: %w", err)
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "bridge"), attribute.String("service.version", version)),
		resource.WithFromEnv()) // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, semantics.Misconfigured(op, "OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	// The batcher's queue is bounded, and full it drops spans: a collector that is away costs traces, nothing else.
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	return &Tracer{provider: provider, tracer: provider.Tracer("kafkabridge")}, nil
}

// complaints logs what goes wrong with the collector, seldom.
type complaints struct {
	log  hclog.Logger
	mu   sync.Mutex
	last time.Time
}

// Handle implements otel.ErrorHandler.
func (c *complaints) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil || time.Since(c.last) < complainEvery {
		return
	}
	c.last = time.Now()
	c.log.Warn("traces could not be sent; the bridge goes on without them", "error", err)
}

// Observe makes the spans of one observation of a bridge. It does not block.
func (t *Tracer) Observe(name string, o bridge.Observation) {
	switch {
	case t == nil:
	case o.Checkpoint != nil:
		t.epoch(name, *o.Checkpoint)
	case o.Recovery != nil:
		end := time.Now()
		t.span(context.Background(), "recovery", end.Add(-o.Took), end, attribute.String("bridge.name", name),
			attribute.Int64("bridge.epoch", int64(o.Recovery.Epoch)), attribute.String("bridge.outcome", string(o.Recovery.Outcome)),
			attribute.String("bridge.reason", o.Recovery.Reason))
	}
}

// epoch makes one span for an epoch, from its opening to its decision or failure, and one below it for each step of its checkpoint.
func (t *Tracer) epoch(name string, c bridge.CheckpointStatus) {
	at := time.UnixMilli(c.BeganMs)
	began := time.UnixMilli(min(c.OpenedMs, c.BeganMs))
	ctx, span := t.tracer.Start(context.Background(), "epoch", trace.WithTimestamp(began), trace.WithAttributes(
		attribute.String("bridge.name", name), attribute.Int64("bridge.epoch", int64(c.Epoch)), attribute.String("bridge.result", c.Result)))
	for _, step := range []struct {
		name    string
		seconds float64
	}{{"align", c.Align}, {"flush", c.Flush}, {"persist", c.Persist}, {"commit", c.Commit}} {
		if step.seconds == 0 {
			continue // not reached
		}
		end := at.Add(time.Duration(step.seconds * float64(time.Second)))
		t.span(ctx, step.name, at, end)
		at = end
	}
	if c.Result != "decided" {
		span.SetStatus(codes.Error, "checkpoint of epoch "+strconv.FormatInt(int64(c.Epoch), 10)+" failed")
	}
	span.End(trace.WithTimestamp(at))
}

func (t *Tracer) span(ctx context.Context, name string, from, to time.Time, about ...attribute.KeyValue) {
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(from), trace.WithAttributes(about...))
	span.End(trace.WithTimestamp(to))
}

// Close sends what is queued, within seconds, and ends.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
}
