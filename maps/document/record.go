package document

import "kafkabridge/bridge"

// Of is the JSON of the record's value, which is not null: what a map before has made of it, or own, which is left in the
// record for the maps behind. So a chain reads a value once.
func Of(r *bridge.Record, own *Document) (Value, error) {
	d, ok := r.Parsed.(*Document)
	if !ok || !d.is(r.Value) {
		d = own
		d.Reset(r.Value)
		r.Parsed = d
	}
	return d.Root()
}

// is says whether the document was made of exactly these bytes.
func (d *Document) is(text []byte) bool {
	return len(text) == len(d.text) && (len(text) == 0 || &text[0] == &d.text[0])
}
