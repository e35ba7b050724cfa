package roce

import "github.com/goroce/goroce/roce/cm"

// CMCounters are the counters of the communication manager of a device, and how
// much it holds now. Every bound that peers can run into is among them.
type CMCounters struct {
	cm.Stats
	Now cm.Counts

	DropAnswer uint64 // answers to other management classes that found the queue full
	DropRecv   uint64 // datagrams that found no receive buffer: 512 came between two looks
	DropSend   uint64 // datagrams that could not be sent: no way to the peer from that address
}

// CMCounters returns the counters of the communication manager, all 0 if it was never used.
func (d *Device) CMCounters() CMCounters {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cm == nil {
		return CMCounters{}
	}
	return CMCounters{
		Stats: d.cm.core.Stats(), Now: d.cm.core.Counts(),
		DropAnswer: d.cm.dropAnswer, DropRecv: d.cm.qp.NoRecv(), DropSend: d.cm.dropSend,
	}
}
