package stage

import (
	"fmt"
	"sort"
	"strings"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
)

// State is what the queues of a host hold after a step: when it has posted something, or when its
// device has handled what has arrived, or a timer. It is of the host's QP and CQ.
type State struct {
	AtNs    int64
	Packets int // that the capture on the host has by then
	transport.QPQueued
	Completions int // in the completion queue
	QP          verbs.QPState
	// Work requests so far that [Stage.Post] has posted: the last Sends of them are in the send
	// queue.
	Posted    int
	PortBytes int     // that wait in the switch on their way to the host
	Rate      cc.Rate // of congestion control; 0 if nothing limits the queue pair
}

// observer notes the state of a host after each step. It is a middleware around the host's link.
type observer struct {
	link.Driven
	above link.Link // of the link: the traces and faults, which the packets pass
	h     *Host
}

func (o *observer) Unwrap() link.Link { return o.above }

func (o *observer) Attach(progress func()) {
	if progress == nil {
		o.Driven.Attach(nil)
		return
	}
	o.Driven.Attach(func() { progress(); o.h.note() })
}

func (o *observer) Send(batch []transport.TxPacket) {
	o.h.packets += len(batch)
	o.above.Send(batch)
}

func (o *observer) Recv(batch []transport.RxPacket) (int, error) {
	n, err := o.above.Recv(batch)
	o.h.packets += n
	return n, err
}

// note takes the state of a host.
func (h *Host) note() {
	if h.QP == nil || h.observer == nil {
		return
	}
	s := State{AtNs: h.observer.Now(), Packets: h.packets, Completions: access.Waiting(h.CQ).Len(),
		QP: h.QP.State(), Posted: len(h.Posted)}
	shard := core.Open(h.QP).Shard()
	if shard.Lock() != nil {
		return // the device is closed
	}
	s.QPQueued = core.Open(h.QP).QP().Queued()
	shard.Unlock()
	_, s.PortBytes = h.port.Queued()
	if c, ok := h.QP.Congestion(); ok && c.Limiting {
		s.Rate = c.Current
	}
	h.States = append(h.States, s)
}

// After returns the state of a host after its nth packet, from 1; nil if none was noted.
func (h *Host) After(packet int) *State {
	i := sort.Search(len(h.States), func(i int) bool { return h.States[i].Packets >= packet })
	if i == len(h.States) {
		return nil
	}
	return &h.States[i]
}

// When returns the last state that was noted by a time; nil if there is none.
func (h *Host) When(atNs int64) *State {
	i := sort.Search(len(h.States), func(i int) bool { return h.States[i].AtNs > atNs })
	if i == 0 {
		return nil
	}
	return &h.States[i-1]
}

// Use makes these the queue pairs of the hosts, whose queues are noted from then on.
func (s *Stage) Use(qps [2]*verbs.QP) {
	for i, h := range s.Hosts {
		h.QP = qps[i]
		h.note()
	}
}

// Note notes the state of a host that has posted to another queue pair than its own: packets have
// left.
func (s *Stage) Note(host int) { s.Hosts[host].note() }

// Post posts a work request on a host, whose send queue has it from then on.
func (s *Stage) Post(host int, w *verbs.SendWR) error {
	h := s.Hosts[host]
	h.Posted = append(h.Posted, name(w))
	err := h.QP.PostSend(w)
	if err != nil {
		h.Posted = h.Posted[:len(h.Posted)-1]
	}
	h.note()
	return err
}

// name is a work request in a few words.
func name(w *verbs.SendWR) string {
	n := 0
	for _, s := range w.SGList {
		n += int(s.Length)
	}
	return fmt.Sprintf("%s %d B", strings.TrimPrefix(w.Opcode.String(), "RDMA_"), n)
}
