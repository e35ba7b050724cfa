package receive

import (
	"sync/atomic"

	"github.com/goroce/goroce/roce/link"
)

// Counters are the counters of the receiving side. A Splitter counts what it sees by itself.
type Counters struct {
	Calls     atomic.Uint64 // system calls that received something
	Truncated atomic.Uint64 // longer than any packet
	Malformed atomic.Uint64 // wrong headers

	// Packets handed on to other devices, lost on that way, and handed on by others.
	On, Lost, In atomic.Uint64
	// Packets for slots that no device has, and packets that take back requests that none received.
	Nobody, Unasked atomic.Uint64

	datagrams, packets, bytes, icrc, solved, short atomic.Uint64
}

// Work returns a count that grows whenever something was received.
func (c *Counters) Work() uint64 { return c.datagrams.Load() + c.In.Load() }

// Read fills in the counters.
func (c *Counters) Read(o *link.Stats) {
	o.RxPackets, o.RxBytes, o.RxDatagrams, o.RxCalls = c.packets.Load(), c.bytes.Load(),
		c.datagrams.Load(), c.Calls.Load()
	o.RxICRC, o.RxSolved, o.RxShort = c.icrc.Load(), c.solved.Load(), c.short.Load()
	o.RxHandedOn, o.RxHandedLost, o.RxHandedIn = c.On.Load(), c.Lost.Load(), c.In.Load()
	o.RxNobody, o.RxUnasked = c.Nobody.Load(), c.Unasked.Load()
	o.RxTruncated, o.RxMalformed = c.Truncated.Load(), c.Malformed.Load()
}
