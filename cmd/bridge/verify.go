package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/hashicorp/go-hclog"
	"github.com/mattn/go-isatty"

	"kafkabridge/configs"
	"kafkabridge/semantics"
)

type verifyCommand struct {
	fileFlag
	formatFlag
	Examples int `default:"10" placeholder:"N" help:"How many examples of each kind are shown (default: 10)."`
}

// Help is the long help text.
func (c *verifyCommand) Help() string {
	return `Reads the source topics and the sink's topics as a read_committed reader does, up to what was committed when the command
began, and compares the records: lost (in the source, not in the sink), doubled, reordered, changed, foreign (in the sink, not in
the source). Memory does not grow with the topics.

Where every sink partition takes the records of one source partition, the order is compared, too. Where several flow together
(partition = "key", or several source topics into one) the sink is compared as a whole, without order, and the bridge must
stand still.

Of a bridge with maps only what they leave alone is compared: headers, mask, key and timestamp maps can be followed; filter,
route, jq and dedupe cannot, and are refused. Topics that are compacted, and records that on_error or on_reject sent elsewhere,
show up as lost. What retention has deleted on one side is passed over, and counted as skipped.

Exit code 1: something differs. 2: the bridge cannot be compared.`
}

// Run compares all bridges of the file.
func (c *verifyCommand) Run(env environment) error {
	file, err := configs.Load(c.Config)
	if err != nil {
		return err
	}
	if c.Examples < 0 || c.Examples > 10_000 {
		return &usageError{fmt.Errorf("--examples %d: want 0 to 10000", c.Examples)}
	}
	for _, b := range file.Bridges {
		if _, err := comparedParts(b.Options); err != nil {
			return err
		}
	}
	ctx, release := env.stoppable(context.Background())
	defer release()
	reports := []verification{}
	differs := false
	for _, b := range file.Bridges {
		v, err := c.bridge(ctx, env, file, b)
		if err != nil {
			return err
		}
		reports = append(reports, v)
		differs = differs || v.differs()
	}
	if err := c.write(env, reports); err != nil {
		return err
	}
	if differs {
		return &silentError{semantics.ExitGaveUp}
	}
	return nil
}

func (c *verifyCommand) bridge(ctx context.Context, env environment, file *configs.File, b configs.Bridge) (v verification, err error) {
	r, err := openRepair(ctx, b, hclog.NewNullLogger())
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	j, err := r.prepareVerify(ctx, env, file)
	if err != nil {
		return v, err
	}
	j.examples = c.Examples
	if isatty.IsTerminal(os.Stderr.Fd()) {
		j.progress = newProgress(env.stderr, b.Options.Name, j.toRead())
		defer j.progress.end()
	}
	return j.run(ctx)
}

func (c *verifyCommand) write(env environment, reports []verification) error {
	if c.Output == "json" {
		return writeJSON(env.stdout, struct {
			Bridges []verification `json:"bridges"`
		}{reports})
	}
	for _, v := range reports {
		_, _ = fmt.Fprintf(env.stdout, "%s: compared %s%s\n", v.Bridge, v.Compared, after("; ", v.Note))
		t := tabwriter.NewWriter(env.stdout, 0, 4, 2, ' ', 0)
		_, _ = fmt.Fprintln(t, "  SOURCE\tSINK\tIN\tOUT\tSAME\tLOST\tDOUBLED\tREORDERED\tCHANGED\tFOREIGN\tSKIPPED\tNOT YET MOVED")
		for _, p := range v.Parts {
			_, _ = fmt.Fprintf(t, "  %s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", p.Source, p.Sink, p.In, p.Out, p.Same, p.Lost, p.Doubled, p.Reordered, p.Changed, p.Foreign, p.Skipped, p.NotYet)
		}
		if err := flush(t); err != nil {
			return err
		}
		for _, p := range v.Parts {
			for _, e := range p.Examples {
				_, _ = fmt.Fprintf(env.stdout, "  %s: %s\n", e.Kind, e.where())
			}
		}
	}
	return nil
}

// verification is the report of one bridge.
type verification struct {
	Bridge   string       `json:"bridge"`
	Compared string       `json:"compared"` // which parts of the records
	Ordered  bool         `json:"ordered"`  // whether the order was compared
	Note     string       `json:"note,omitempty"`
	Parts    []comparison `json:"parts"`
}

func (v verification) differs() bool {
	for _, p := range v.Parts {
		if p.Lost+p.Doubled+p.Reordered+p.Changed+p.Foreign > 0 {
			return true
		}
	}
	return false
}

// comparison is the report of one pair of partitions, or of one sink topic as a whole.
type comparison struct {
	Source    string    `json:"source"`
	Sink      string    `json:"sink"`
	In        int64     `json:"in"`  // records read
	Out       int64     `json:"out"` // records read
	Same      int64     `json:"same"`
	Lost      int64     `json:"lost"`
	Doubled   int64     `json:"doubled"`
	Reordered int64     `json:"reordered"`
	Changed   int64     `json:"changed"`
	Foreign   int64     `json:"foreign"`
	Skipped   int64     `json:"skipped"`       // the other side no longer has, or never had, what comes before
	NotYet    int64     `json:"not_yet_moved"` // behind the decided positions
	Examples  []example `json:"examples,omitempty"`
}

// example names one record that differs; an offset is -1 where it has no place on that side.
type example struct {
	Kind   string `json:"kind"`
	Source string `json:"source,omitempty"`
	In     int64  `json:"source_offset"`
	Sink   string `json:"sink,omitempty"`
	Out    int64  `json:"sink_offset"`
}

func (e example) where() string {
	text := ""
	if e.In >= 0 {
		text = fmt.Sprintf("source %s offset %d", e.Source, e.In)
	}
	if e.Out >= 0 {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("sink %s offset %d", e.Sink, e.Out)
	}
	return text
}

// add counts a finding and keeps a bounded number of examples of its kind.
func (c *comparison) add(most int, e example) {
	n := map[string]*int64{"lost": &c.Lost, "doubled": &c.Doubled, "reordered": &c.Reordered, "changed": &c.Changed, "foreign": &c.Foreign}[e.Kind]
	if *n++; *n <= int64(most) {
		c.Examples = append(c.Examples, e)
	}
}
