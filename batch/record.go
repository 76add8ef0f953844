package batch

// Record is one record. From a [Reader] its slices are views into the payload, valid as long as the payload is; their
// capacity ends with them, so appending to one copies and cannot overwrite its neighbour.
type Record struct {
	Key, Value []byte // nil is null, empty and not nil is empty
	Headers    Headers
	Timestamp  int64 // milliseconds since 1970; -1 is none; the raw number, because time.Time in nanoseconds ends in 2262
	Offset     int64 // of the source; a Builder ignores it
	Attributes int8  // unused by Kafka so far, carried on
}

// RecordHeader is one header of a record.
type RecordHeader struct {
	Key   []byte // never null; may be empty; Kafka's clients take it as UTF-8, nothing here does
	Value []byte // nil is null
}

// Headers are the headers of a record as they stand on the wire, without their count: in order, duplicates kept. The
// zero value has none. A Headers is a view and immutable; make another with a [HeadersBuffer].
type Headers struct {
	raw   []byte
	count int32
}

// Len returns the number of headers.
func (h Headers) Len() int { return int(h.count) }

// Raw returns the encoded headers without their count. Do not change them.
func (h Headers) Raw() []byte { return h.raw }

// Copy appends the encoded headers to dst and returns the headers as a view of the copy.
func (h Headers) Copy(dst []byte) (Headers, []byte) {
	n := len(dst)
	dst = append(dst, h.raw...)
	h.raw = dst[n:len(dst):len(dst)]
	return h, dst
}

// AppendTo appends the headers in order to dst, as views.
func (h Headers) AppendTo(dst []RecordHeader) []RecordHeader {
	it := h.Walk()
	for header, ok := it.Next(); ok; header, ok = it.Next() {
		dst = append(dst, header)
	}
	return dst
}

// Walk returns an iterator over the headers in order. It allocates nothing.
func (h Headers) Walk() HeadersWalk { return HeadersWalk{rest: h.raw, left: h.count} }

// HeadersWalk walks [Headers].
type HeadersWalk struct {
	rest []byte
	left int32
}

// Next returns the next header as views; ok is false behind the last.
func (w *HeadersWalk) Next() (header RecordHeader, ok bool) {
	if w.left <= 0 {
		return RecordHeader{}, false
	}
	w.left--
	var okKey, okValue bool
	// Headers come from a Reader, which checked them, or a HeadersBuffer, which wrote them: neither can fail here.
	header.Key, w.rest, okKey = takeBytes(w.rest)
	header.Value, w.rest, okValue = takeBytes(w.rest)
	return header, okKey && okValue
}

// takeBytes splits off b a varint length and as many bytes; length -1 gives nil. ok is false when b does not hold
// them or the length is below -1.
func takeBytes(b []byte) (field, rest []byte, ok bool) {
	l, n := varint(b)
	if n == 0 || l < -1 || int(l) > len(b)-n {
		return nil, nil, false
	}
	if l == -1 {
		return nil, b[n:], true
	}
	end := n + int(l)
	return b[n:end:end], b[end:], true
}

// HeadersBuffer makes [Headers]. The zero value is ready. Reset it for the next record and its memory is used again,
// so what Headers returned is valid until then.
type HeadersBuffer struct {
	raw   []byte
	count int32
}

// Reset empties the buffer.
func (b *HeadersBuffer) Reset() { b.raw, b.count = b.raw[:0], 0 }

// Add appends a header; a nil value is null.
func (b *HeadersBuffer) Add(key, value []byte) {
	b.raw = appendVarint(b.raw, len(key))
	b.raw = append(b.raw, key...)
	b.raw = appendBytes(b.raw, value)
	b.count++
}

// AddAll appends headers in their encoding, in order.
func (b *HeadersBuffer) AddAll(h Headers) {
	b.raw = append(b.raw, h.raw...)
	b.count += h.count
}

// Headers returns what was added since Reset.
func (b *HeadersBuffer) Headers() Headers {
	return Headers{raw: b.raw[:len(b.raw):len(b.raw)], count: b.count}
}

// appendBytes appends a length and the bytes of a nullable field.
func appendBytes(dst, field []byte) []byte {
	if field == nil {
		return append(dst, 1) // zigzag of -1
	}
	return append(appendVarint(dst, len(field)), field...)
}

// sizeBytes returns what appendBytes appends.
func sizeBytes(field []byte) int {
	if field == nil {
		return 1
	}
	return sizeVarint(len(field)) + len(field)
}
