package snapshot

import (
	"errors"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/go-hclog"
)

// DefaultRetain is how many checkpoints are kept when Options.Retain is 0.
const DefaultRetain = 3

// Options configure the store.
type Options struct {
	Path   string       // the state directory; created when missing, its parent is not (a typing error or a volume that is not mounted)
	Bridge string       // stored in the directory; a directory of another bridge is refused
	Retain int          // checkpoints kept in all, 3 by default; the last decided one and everything newer always stay
	FS     vfs.FS       // nil: the disk
	Logger hclog.Logger // Pebble's own log and events; nil: none
}

// EnsureDefaults replaces zero values.
func (o *Options) EnsureDefaults() {
	if o.Retain == 0 {
		o.Retain = DefaultRetain
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
}

// Validate reports all problems at once.
func (o *Options) Validate() error {
	var errs []error
	if o.Path == "" {
		errs = append(errs, errors.New("checkpoint: path is missing"))
	}
	if o.Bridge == "" {
		errs = append(errs, errors.New("checkpoint: the bridge's name is missing"))
	}
	if len(o.Bridge) > maxNameBytes {
		errs = append(errs, errors.New("checkpoint: the bridge's name is longer than 255 bytes"))
	}
	if o.Retain < 0 {
		errs = append(errs, errors.New("checkpoint: retain is negative"))
	}
	return errors.Join(errs...)
}
