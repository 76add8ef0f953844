package txn

import "sync"

// requestsPerBroker is how many Produce requests may be on their way to one broker, for disjoint partitions. A broker
// works on one request of a connection at a time: more would only wait in its socket buffer.
const requestsPerBroker = 3

// bytesPerRequest is where a Produce request is closed; one batch always fits. Far below the broker's
// socket.request.max.bytes (100 MB), and small enough that kgo's copies of the requests on their way stay small.
const bytesPerRequest = 4 << 20

// sender turns the heads of the partitions that one broker leads into Produce requests.
type sender struct {
	r     *run
	node  int32
	wake  chan struct{} // one token: ready may be non-empty
	slots chan struct{} // a token for each request on its way

	mu    sync.Mutex
	ready []*partition // a batch to send, none in flight
}

// senderOf returns the sender of a broker and starts it when it is new.
func (r *run) senderOf(node int32) *sender {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.senders[node]
	if s == nil {
		s = &sender{r: r, node: node, wake: make(chan struct{}, 1), slots: make(chan struct{}, requestsPerBroker)}
		r.senders[node] = s
		if r.err == nil { // otherwise abandon may be waiting already, and nothing is to be sent
			r.wg.Go(s.loop)
		}
	}
	return s
}

// push makes part's head due.
func (s *sender) push(part *partition) {
	s.mu.Lock()
	s.ready = append(s.ready, part)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// loop sends until the run ends. It takes a slot before it looks at what is ready, so that heads gather in one request
// while all slots are in use.
func (s *sender) loop() {
	for {
		select {
		case s.slots <- struct{}{}:
		case <-s.r.ctx.Done():
			return
		}
		parts := s.take()
		for len(parts) == 0 {
			select {
			case <-s.wake:
				parts = s.take()
			case <-s.r.ctx.Done():
				return
			}
		}
		s.r.wg.Go(func() { s.r.send(s, parts) })
	}
}

// take removes the partitions of one request from the ready list.
func (s *sender) take() []*partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	size, n := 0, 0
	for _, part := range s.ready {
		size += len(s.r.head(part).out.Raw)
		if n > 0 && size > bytesPerRequest {
			break
		}
		n++
	}
	parts := s.ready[:n:n]
	s.ready = s.ready[n:]
	if len(s.ready) == 0 {
		s.ready = nil
	}
	return parts
}

// head is the batch that part has to send next.
func (r *run) head(part *partition) *pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	return part.queue[0]
}
