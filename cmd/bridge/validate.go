package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafkabridge/configs"
	"kafkabridge/connect"
	"kafkabridge/semantics"
	"kafkabridge/snapshot"
)

type validateCommand struct {
	fileFlag
	Offline bool `help:"Check the file only; connect to nothing."`
}

// validateTimeout bounds the check of one cluster, after connect.Check, which has a limit of its own, has found it there.
const validateTimeout = 10 * time.Second

// Run checks the file, then what it names, and reports all problems at once.
func (c *validateCommand) Run(env environment) error {
	file, err := configs.Load(c.Config)
	if err != nil {
		return err
	}
	v := &validation{log: hclog.NewNullLogger()}
	v.surface(file, c.Offline)
	if !c.Offline {
		ctx, release := env.stoppable(context.Background())
		defer release()
		v.online(ctx, file)
		if ctx.Err() != nil {
			return errStopped // what was found is the stop's doing as like as not
		}
	}
	for _, line := range slices.Concat(v.problems, v.warnings, v.notes) {
		_, _ = fmt.Fprintln(env.stderr, line)
	}
	if len(v.problems) > 0 {
		return &silentError{semantics.ExitUsage}
	}
	more := ""
	if n := len(v.warnings); n > 0 {
		more = fmt.Sprintf(", %d warning(s)", n)
	}
	_, err = fmt.Fprintf(env.stdout, "%s is valid: %d bridge(s)%s\n", c.Config, len(file.Bridges), more)
	return err
}

// validation collects what it finds, one line each: what is wrong and what to do. With a problem the bridge does not start, or
// stops at once, and the exit code is 2; a warning is a risk; a note is what could not be looked at.
type validation struct {
	log                       hclog.Logger
	problems, warnings, notes []string
	where                     string
}

func (v *validation) problem(format string, args ...any) {
	v.problems = append(v.problems, v.line(format, args))
}

func (v *validation) warn(format string, args ...any) {
	v.warnings = append(v.warnings, "warning: "+v.line(format, args))
}

func (v *validation) note(format string, args ...any) {
	v.notes = append(v.notes, "note: "+v.line(format, args))
}

func (v *validation) line(format string, args []any) string {
	return v.where + ": " + strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
}

func (v *validation) check(err error) {
	if err != nil {
		v.problem("%v", err)
	}
}

// cluster is a cluster as one source or sink reaches it.
type cluster struct {
	where string
	o     connect.Options
	cl    *kgo.Client // nil: see err
	err   error
}

func (c *cluster) connect(ctx context.Context, log hclog.Logger) {
	if c.cl, c.err = connect.Client(c.o, log); c.err == nil {
		c.err = connect.Check(ctx, c.cl, c.o)
	}
}

// online connects to all clusters at the same time, so that the wait for those that do not answer does not add up, and
// then looks at each.
func (v *validation) online(ctx context.Context, file *configs.File) {
	clusters := make([][]*cluster, len(file.Bridges)) // of a bridge: its sources, then its sink
	var connecting sync.WaitGroup
	for i, b := range file.Bridges {
		for j, s := range b.Options.Sources {
			clusters[i] = append(clusters[i], &cluster{where: fmt.Sprintf("bridge %q source %q", b.Options.Name, s.Name), o: b.SourceConnections[j]})
		}
		clusters[i] = append(clusters[i], &cluster{where: fmt.Sprintf("bridge %q sink %q", b.Options.Name, b.Options.Sink.Name), o: b.SinkConnection})
		for _, c := range clusters[i] {
			connecting.Go(func() { c.connect(ctx, v.log) })
		}
	}
	connecting.Wait()
	for i, b := range file.Bridges {
		v.where = fmt.Sprintf("bridge %q", b.Options.Name)
		v.timing(b)
		v.directory(b)
		sources := &sourceTopics{partitions: map[string]int32{}}
		for j, c := range clusters[i] {
			v.inspect(ctx, c, func(ctx context.Context) {
				if j < len(b.Options.Sources) {
					v.source(ctx, c, b, j, sources)
				} else {
					v.sink(ctx, c, b, sources)
				}
			})
		}
	}
}

func (v *validation) inspect(ctx context.Context, c *cluster, look func(context.Context)) {
	v.where = c.where
	if c.cl != nil {
		defer c.cl.Close()
	}
	if c.err != nil {
		v.check(c.err)
		return
	}
	if secret := c.o.Exposed(); secret != "" {
		v.warn("%s goes over the network in plain text: add tls {} and use the brokers' TLS port", secret)
	}
	ctx, cancel := context.WithTimeout(ctx, validateTimeout)
	defer cancel()
	look(ctx)
}

// directory checks that the daemon can take the state directory, or has it already.
func (v *validation) directory(b configs.Bridge) {
	if b.Store == nil {
		return
	}
	path := b.Store.Path
	if !unused(path) {
		store, err := snapshot.OpenReadOnly(*b.Store)
		switch {
		case errors.Is(err, snapshot.ErrLocked):
			return // in use by the daemon
		case err == nil:
			v.check(store.Close())
		case !errors.Is(err, snapshot.ErrNoState):
			v.check(err)
			return
		}
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		v.writable(path, "state directory "+path)
		v.disk(path, path)
		return
	}
	v.disk(filepath.Dir(path), path)
	// The directory is made at the first start, its parent is not.
	parent := filepath.Dir(path)
	v.writable(parent, fmt.Sprintf("state directory %s cannot be made: %s", path, parent))
}

// writable makes a file and removes it: rights, read-only file systems and full disks have no better test.
func (v *validation) writable(dir, what string) {
	f, err := os.CreateTemp(dir, ".bridge-validate-*")
	switch {
	case errors.Is(err, os.ErrNotExist):
		v.problem("%s does not exist: create it (mkdir -p %s), or mount its volume", what, dir)
		return
	case err != nil:
		v.problem("%s is not writable: %v%s: give the user of the daemon the right to write there, or set checkpoint.path", what, err, owner(dir))
		return
	}
	_, err = f.Write(make([]byte, 4096)) // an empty file can be made on a full disk
	if err = errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name())); err != nil {
		v.problem("%s cannot be written to: %v: make room there, or set checkpoint.path", what, err)
	}
}
