package rdmacm

import (
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/rdmacm/cm"
	"github.com/goroce/goroce/roce/verbs"
)

// Counters has the counters of a device's communication manager, and how much it holds now. It
// covers every bound that peers can run into.
type Counters struct {
	cm.Stats
	Now   cm.Counts
	Ports int // ports bound now, in all port spaces

	DropAnswer uint64 // answers to other management classes that did not fit the queue
	DropRecv   uint64 // datagrams that found no receive buffer: more than 512 came between two looks
	DropSend   uint64 // datagrams that could not be sent: no path to the peer from that address
}

// CountersOf returns the counters of the communication manager, all 0 if it was never used.
func CountersOf(d *verbs.Device) Counters {
	s := access.Shard(d)
	if s == nil {
		return Counters{}
	}
	s.LockAlways()
	defer s.Unlock()
	a, ok := s.Service().(*agent)
	if !ok {
		return Counters{}
	}
	return Counters{
		Stats: a.core.Stats(), Now: a.core.Counts(), Ports: len(a.ports),
		DropAnswer: a.dropAnswer, DropRecv: a.qp.NoRecv(), DropSend: a.dropSend,
	}
}
