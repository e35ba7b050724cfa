package sim

// kind is the kind of an event.
type kind uint8

const (
	atSwitch kind = iota // a packet reaches the switch
	atHost               // a packet reaches a host
	timer                // a device's timer
	callback             // a function of the test
	departs              // a packet leaves a queue that marks at departure
	leaves               // a packet leaves a queue that can be paused
)

// event is something that will happen.
type event struct {
	at   int64
	seq  uint64 // order among events of one instant
	kind kind
	link *Link // of a timer
	host *node // reached by a packet
	pkt  *packet
	fn   func()

	pipe *pipeState // of departs and leaves, and what comes by a trunk: the queue
	// Of departs and leaves: which event follows when.
	next  kind
	after int64
}

// eventHeap is a binary heap by time, then sequence.
type eventHeap []event

func (h eventHeap) less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}

func (h *eventHeap) push(e event) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s.less(i, up) {
			break
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *eventHeap) pop() event {
	s := *h
	e := s[0]
	n := len(s) - 1
	s[0] = s[n]
	s[n] = event{}
	*h = s[:n]
	h.down(0)
	return e
}

// order makes it a heap again after times have changed.
func (h eventHeap) order() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h eventHeap) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h.less(c+1, c) {
			c++
		}
		if !h.less(c, i) {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}
