package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kafkabridge/bridge"
	"kafkabridge/configs"
	"kafkabridge/maps"
	"kafkabridge/semantics"
)

type resetCommand struct {
	fileFlag
	To        string `required:"" placeholder:"WHERE" help:"earliest, latest, a time (2026-01-31T12:00:00Z: the first record from then on), or topic/partition=offset, with commas between several. What is not named keeps its position."`
	Bridge    string `placeholder:"NAME" help:"Which bridge, where the file has several."`
	Source    string `placeholder:"NAME" help:"Only this source block."`
	DropState bool   `help:"Begin with empty map state: a state that belongs to other positions would be wrong."`
	Yes       bool   `help:"Do not ask."`
}

// Run sets the positions of one bridge that does not run.
func (c *resetCommand) Run(env environment) error {
	file, err := configs.Load(c.Config)
	if err != nil {
		return err
	}
	to, err := parseTarget(c.To)
	if err != nil {
		return err
	}
	b, err := c.chosen(file)
	if err != nil {
		return err
	}
	ctx, release := env.stoppable(context.Background())
	defer release()
	return c.reset(ctx, env, file, b, to)
}

// chosen is the bridge that is meant, with --source checked.
func (c *resetCommand) chosen(file *configs.File) (configs.Bridge, error) {
	var names []string
	for _, b := range file.Bridges {
		names = append(names, b.Options.Name)
	}
	i := slices.Index(names, c.Bridge)
	if c.Bridge == "" && len(names) == 1 {
		i = 0
	}
	if i < 0 {
		return configs.Bridge{}, &usageError{fmt.Errorf("which bridge: --bridge is one of %s", strings.Join(names, ", "))}
	}
	b := file.Bridges[i]
	if c.Source != "" && !slices.ContainsFunc(b.Options.Sources, func(s bridge.SourceOptions) bool { return s.Name == c.Source }) {
		return b, &usageError{fmt.Errorf("bridge %q has no source %q", b.Options.Name, c.Source)}
	}
	if m := stateful(b.Options); m != "" && !c.DropState {
		return b, semantics.Refuse(fmt.Sprintf("bridge %q", b.Options.Name), "map %s keeps state that belongs to the positions it was made at: with --drop-state it begins empty at the new ones", m)
	}
	return b, nil
}

// stateful names the first map that keeps state; "" when none does.
func stateful(o bridge.Options) string {
	kinds := maps.Kinds()
	for _, m := range o.Maps {
		if f := kinds[m.Kind]; f != nil {
			if made, err := f(m.Settings); err == nil {
				if _, ok := made.(bridge.Stateful); ok {
					return m.Kind
				}
			}
		}
	}
	return ""
}

func (c *resetCommand) reset(ctx context.Context, env environment, file *configs.File, b configs.Bridge, to target) (err error) {
	store, err := holdDirectory(env, file, b, true)
	if err != nil {
		return err
	}
	if store != nil {
		defer func() { err = errors.Join(err, store.Close()) }()
	}
	r, err := openRepair(ctx, b, newLogger(file.Log, env))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.check(ctx); err != nil {
		return err
	}
	d := &resetDriver{r: r, cfg: r.config()}
	d.cfg.Reset, d.cfg.Stateful, d.cfg.RestartAttempts = true, false, resetAttempts
	if d.fail, err = failpoint(r.log); err != nil {
		return err
	}
	views, err := r.viewSources(ctx)
	if err != nil {
		return err
	}
	d.store = store
	if store == nil {
		d.store = &groupOffsets{o: b.Options, views: views}
	}
	before, err := r.foreseen(ctx, d)
	if err != nil {
		return err
	}
	moves, err := to.moves(ctx, c.Source, views, before)
	if err != nil {
		return err
	}
	if len(moves) == 0 {
		return semantics.Misconfigured("reset", "no topic of the sources is named by --to %s: nothing to set", c.To)
	}
	showMoves(env.stderr, b.Options.Name, moves, c.DropState)
	if err := confirm(env, question(b), c.Yes); err != nil {
		return err
	}
	d.moves = moves
	epoch, err := d.run(ctx)
	if err != nil {
		return fmt.Errorf("reset of bridge %q: %w", b.Options.Name, err)
	}
	for _, m := range moves {
		_, _ = fmt.Fprintf(env.stdout, "%s/%s/%d=%d\n", m.source, m.topic, m.partition, m.to)
	}
	_, _ = fmt.Fprintf(env.stderr, "bridge %q: the new positions are decided with epoch %d\n", b.Options.Name, epoch)
	return nil
}

func question(b configs.Bridge) string {
	if b.Options.Semantic == semantics.ExactlyOnce {
		return "Set these positions? What is read again is delivered again, what is skipped never, and a daemon of this bridge on another machine is fenced."
	}
	return "Set these positions? What is read again is delivered again, what is skipped never."
}

// check refuses what a daemon refuses at its start: brokers that are too old, a transaction timeout above their limit.
func (r *repair) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, repairTimeout)
	defer cancel()
	return r.explain(r.sink.Check(ctx))
}

// viewSources looks at all sources of the bridge.
func (r *repair) viewSources(ctx context.Context) (out []*sourceView, err error) {
	ctx, cancel := context.WithTimeout(ctx, repairTimeout)
	defer cancel()
	for i, o := range r.b.Options.Sources {
		cl, err := r.source(ctx, i)
		if err != nil {
			return nil, err
		}
		v, err := viewSource(ctx, o, r.b.SourceConnections[i], cl)
		if err != nil {
			return nil, fmt.Errorf("bridge %q: %w", r.b.Options.Name, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// foreseen are the positions at which a start would go on: what is prepared is committed by the reset first. A start that
// would refuse refuses here, before anybody is asked.
func (r *repair) foreseen(ctx context.Context, d *resetDriver) (semantics.Positions, error) {
	ctx, cancel := context.WithTimeout(ctx, repairTimeout)
	defer cancel()
	stored, err := d.store.Load()
	if err != nil {
		return nil, err
	}
	var s sighting
	if ids := r.b.Sink.TransactionalIDs; len(ids) > 0 {
		if s, _, err = r.see(ctx, ids); err != nil {
			return nil, err
		}
	}
	f := semantics.Foresee(d.cfg, stored, viewOf(stored, s))
	return f.Positions, f.Err
}
