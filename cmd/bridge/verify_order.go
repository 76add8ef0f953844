package main

// verifyWindow is how far two streams may be apart, in records, and still be brought together again. It bounds the memory of a
// pair at some ten megabytes, and only where something differs. Behind a longer stretch that one side lacks, everything is lost
// on one side and foreign on the other: it is a difference all the same.
const verifyWindow = 1 << 16

// item is one record of a stream.
type item struct {
	print  fingerprint
	offset int64
}

// ordered compares the streams of two partitions. In step, both advance by one. Where they differ it looks in a window of each stream:
// what only one has is lost or foreign; what the sink shows again is doubled; what comes later than it should is
// reordered; and where both go on alike behind one record, that record was changed.
//
// Identical records in a row are legal in Kafka, and are matched in order.
type ordered struct {
	in, out  *ahead
	report   *comparison
	examples int
	source   string // names for examples
	sink     string
	decided  int64 // source offsets from here on need not be in the sink yet
	window   int   // verifyWindow

	missing map[fingerprint][]int64 // passed over in the source, not seen in the sink yet; bounded
	waiting []item                  // the same, oldest first
	recent  map[fingerprint]int     // records that matched lately, how often
	past    []fingerprint           // the same, oldest first
}

func newOrdered(in, out *ahead, report *comparison) *ordered {
	return &ordered{in: in, out: out, report: report, window: in.window, missing: map[fingerprint][]int64{}, recent: map[fingerprint]int{}}
}

func (o *ordered) run() error {
	for {
		a, okA, err := o.in.peek(0)
		if err != nil {
			return err
		}
		b, okB, err := o.out.peek(0)
		if err != nil {
			return err
		}
		switch {
		case !okA && !okB:
			for len(o.waiting) > 0 {
				o.give()
			}
			return nil
		case okA && okB && a.print == b.print:
			o.in.next()
			o.out.next()
			o.same(b)
		case !okB:
			o.in.next()
			o.pass(a)
		case !okA:
			o.out.next()
			o.extra(b)
		default:
			if err := o.differ(a, b); err != nil {
				return err
			}
		}
	}
}

func (o *ordered) same(b item) {
	o.report.Same++
	o.remember(b.print)
}

// remember that the sink has shown p.
func (o *ordered) remember(p fingerprint) {
	o.recent[p]++
	if o.past = append(o.past, p); len(o.past) > o.window {
		if o.recent[o.past[0]]--; o.recent[o.past[0]] == 0 {
			delete(o.recent, o.past[0])
		}
		o.past = o.past[1:]
	}
}

// differ decides about the first records of both streams, which are not the same.
func (o *ordered) differ(a, b item) error {
	if o.late(b) { // it was passed over before
		o.out.next()
		return nil
	}
	changed, err := o.alikeBehind()
	if err != nil {
		return err
	}
	at, err := o.in.find(b.print)
	if err != nil {
		return err
	}
	back, err := o.out.find(a.print)
	if err != nil {
		return err
	}
	switch {
	case o.recent[b.print] > 0 && (at < 0 || back >= 0): // the sink shows again what it has shown
		o.out.next()
		o.found(example{Kind: "doubled", In: -1, Out: b.offset})
	case at < 0 && back < 0 && changed:
		o.in.next()
		o.out.next()
		o.found(example{Kind: "changed", In: a.offset, Out: b.offset})
	case at >= 0:
		o.in.next()
		o.pass(a)
	case back >= 0:
		o.out.next()
		o.extra(b)
	default: // neither is on the other side: one of each is gone and one is new
		o.in.next()
		o.pass(a)
		o.out.next()
		o.extra(b)
	}
	return nil
}

// alikeBehind says whether the streams go on alike behind their first records.
func (o *ordered) alikeBehind() (bool, error) {
	a, okA, err := o.in.peek(1)
	if err != nil {
		return false, err
	}
	b, okB, err := o.out.peek(1)
	return okA == okB && a.print == b.print, err
}

// pass notes a record of the source that is not where it should be in the sink. It is lost unless it comes later.
func (o *ordered) pass(a item) {
	o.missing[a.print] = append(o.missing[a.print], a.offset)
	if o.waiting = append(o.waiting, a); len(o.waiting) > o.window {
		o.give()
	}
}

// give up waiting for the oldest one.
func (o *ordered) give() {
	a := o.waiting[0]
	o.waiting = o.waiting[1:]
	if !o.take(a) {
		return // came late
	}
	if a.offset >= o.decided {
		o.report.NotYet++
		return
	}
	o.found(example{Kind: "lost", In: a.offset, Out: -1})
}

// take removes a from what is missing; false if it is not there any more.
func (o *ordered) take(a item) bool {
	list := o.missing[a.print]
	for i, offset := range list {
		if offset == a.offset {
			if list = append(list[:i], list[i+1:]...); len(list) == 0 {
				delete(o.missing, a.print)
			} else {
				o.missing[a.print] = list
			}
			return true
		}
	}
	return false
}

// late matches b with a record that was passed over.
func (o *ordered) late(b item) bool {
	list := o.missing[b.print]
	if len(list) == 0 {
		return false
	}
	a := item{b.print, list[0]}
	o.take(a)
	o.found(example{Kind: "reordered", In: a.offset, Out: b.offset})
	o.remember(b.print)
	return true
}

// extra is a record of the sink that is not next in the source.
func (o *ordered) extra(b item) {
	switch {
	case o.late(b):
	case o.recent[b.print] > 0:
		o.found(example{Kind: "doubled", In: -1, Out: b.offset})
	default:
		o.found(example{Kind: "foreign", In: -1, Out: b.offset})
	}
}

func (o *ordered) found(e example) {
	e.Source, e.Sink = o.source, o.sink
	o.report.add(o.examples, e)
}

// ahead is a stream that can be looked into, up to window records.
type ahead struct {
	read   func() (item, bool, error) // false at the end
	count  *int64
	buf    []item
	base   int                   // records taken so far
	where  map[fingerprint][]int // of what is in buf: its positions, counted from the stream's begin
	ended  bool
	window int
}

func newAhead(read func() (item, bool, error), count *int64) *ahead {
	return &ahead{read: read, count: count, window: verifyWindow, where: map[fingerprint][]int{}}
}

// peek is the record n behind the next one; false at the end of the stream.
func (s *ahead) peek(n int) (item, bool, error) {
	for len(s.buf) <= n && !s.ended {
		it, ok, err := s.read()
		if err != nil {
			return item{}, false, err
		}
		if !ok {
			s.ended = true
			break
		}
		*s.count++
		s.where[it.print] = append(s.where[it.print], s.base+len(s.buf))
		s.buf = append(s.buf, it)
	}
	if len(s.buf) <= n {
		return item{}, false, nil
	}
	return s.buf[n], true, nil
}

// next drops the first record.
func (s *ahead) next() {
	p := s.buf[0].print
	s.buf = s.buf[1:]
	s.base++
	if at := s.where[p]; len(at) > 1 {
		s.where[p] = at[1:]
	} else {
		delete(s.where, p)
	}
}

// find is how far ahead the first record with that fingerprint is, -1 when it is not in the window.
func (s *ahead) find(p fingerprint) (int, error) {
	if _, _, err := s.peek(s.window - 1); err != nil {
		return 0, err
	}
	if at := s.where[p]; len(at) > 0 {
		return at[0] - s.base, nil
	}
	return -1, nil
}
