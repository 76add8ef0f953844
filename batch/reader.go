package batch

// Reader walks the records of a decompressed payload in place. It allocates nothing; the zero value is empty, Reset
// points it at a payload. Not safe for concurrent use.
//
//	var r batch.Reader
//	var rec batch.Record
//	for r.Reset(h, payload); r.Next(&rec); {
//		...
//	}
//	if err := r.Err(); err != nil {
//
// A payload that turns out to be corrupt does so when its bad record is reached, after the good ones before it: do
// nothing that cannot be taken back before Err has said nil.
type Reader struct {
	h          Header
	rest       []byte
	read       int32 // records so far
	minDelta   int32 // the least offset delta that the next record may have
	exhausted  bool  // all offset deltas up to the largest int32 were used
	err        error
	appendTime bool
}

// Reset points the reader at the payload of the batch with header h, as [Decoder.Payload] returned it.
func (r *Reader) Reset(h Header, payload []byte) {
	*r = Reader{h: h, rest: payload, appendTime: h.LogAppendTime()}
}

// Next reads the next record into rec, overwriting all of it. It is false behind the last record and on an error,
// which Err tells apart.
func (r *Reader) Next(rec *Record) bool {
	if r.err != nil {
		return false
	}
	if r.read == r.h.NumRecords {
		if len(r.rest) != 0 {
			r.fail("%d bytes behind the last of %d records", len(r.rest), r.h.NumRecords)
		}
		return false
	}
	length, n := varint(r.rest)
	if n == 0 || length < minRecord-1 || int(length) > len(r.rest)-n {
		r.fail("record %d of %d has a length of %d with %d bytes left", r.read, r.h.NumRecords, length, len(r.rest))
		return false
	}
	body := r.rest[n : n+int(length)]
	r.rest = r.rest[n+int(length):]
	if !r.parse(body, rec) {
		return false
	}
	r.read++
	return true
}

// Err returns why Next was false: nil when all records were read and nothing was left over, an error that wraps
// [ErrCorrupt] otherwise.
func (r *Reader) Err() error { return r.err }

// parse reads a record from its body, which must hold the record and nothing more.
func (r *Reader) parse(body []byte, rec *Record) bool {
	rec.Attributes = int8(body[0]) // the body is not empty: Next saw to it
	body = body[1:]
	timeDelta, n := varlong(body)
	if n == 0 {
		return r.fail("record %d has no timestamp", r.read)
	}
	body = body[n:]
	delta, n := varint(body)
	if n == 0 {
		return r.fail("record %d has no offset", r.read)
	}
	if delta < r.minDelta || delta > r.h.LastOffsetDelta || r.exhausted {
		return r.fail("record %d has offset delta %d, want %d to %d", r.read, delta, r.minDelta, r.h.LastOffsetDelta)
	}
	r.minDelta = delta + 1
	r.exhausted = r.minDelta < 0
	rec.Offset = r.h.FirstOffset + int64(delta)
	rec.Timestamp = r.h.FirstTimestamp + timeDelta
	if r.appendTime {
		rec.Timestamp = r.h.MaxTimestamp
	}
	var ok bool
	if rec.Key, body, ok = takeBytes(body[n:]); !ok {
		return r.fail("record %d has a key that does not fit", r.read)
	}
	if rec.Value, body, ok = takeBytes(body); !ok {
		return r.fail("record %d has a value that does not fit", r.read)
	}
	return r.parseHeaders(body, rec)
}

// parseHeaders takes what is left of a record as its headers. All of it is checked here, so that nobody who walks
// them later has to look for errors.
func (r *Reader) parseHeaders(body []byte, rec *Record) bool {
	count, n := varint(body)
	body = body[n:]
	if n == 0 || count < 0 || int64(count)*2 > int64(len(body)) {
		return r.fail("record %d claims %d headers in %d bytes", r.read, count, len(body))
	}
	rest := body
	for i := range count {
		key, afterKey, ok := takeBytes(rest)
		if !ok || key == nil {
			return r.fail("record %d has a header key %d that does not fit", r.read, i)
		}
		if _, rest, ok = takeBytes(afterKey); !ok {
			return r.fail("record %d has a header value %d that does not fit", r.read, i)
		}
	}
	if len(rest) != 0 {
		return r.fail("record %d has %d bytes behind its headers", r.read, len(rest))
	}
	rec.Headers = Headers{raw: body[:len(body):len(body)], count: count}
	return true
}

// fail remembers the error and returns false.
func (r *Reader) fail(format string, args ...any) bool {
	r.err = corruptf(r.h.FirstOffset, format, args...)
	return false
}
