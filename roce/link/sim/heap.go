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

	// Of departs and leaves: the queue, and which event follows when.
	pipe  *pipeState
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
	s = s[:n]
	*h = s
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && s.less(c+1, c) {
			c++
		}
		if !s.less(c, i) {
			break
		}
		s[i], s[c] = s[c], s[i]
		i = c
	}
	return e
}
