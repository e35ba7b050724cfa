package transmit

import (
	"sync/atomic"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
)

// Counters are the counters of the sending side.
type Counters struct {
	Packets, Bytes, Datagrams atomic.Uint64
	Calls                     atomic.Uint64 // system calls
	Blocked                   atomic.Uint64 // times that the network would not take more
	Dropped                   atomic.Uint64 // packets
	Unreachable               atomic.Uint64 // those of Dropped that had nowhere to go
	Fallbacks                 atomic.Uint64 // times that segmentation offload was refused
}

// Work returns a count that grows whenever something has left or was given up.
func (c *Counters) Work() uint64 { return c.Datagrams.Load() + c.Dropped.Load() }

// Read fills in the counters.
func (c *Counters) Read(o *link.Stats) {
	o.TxPackets, o.TxBytes, o.TxDatagrams = c.Packets.Load(), c.Bytes.Load(), c.Datagrams.Load()
	o.TxCalls, o.TxBlocked, o.TxDropped = c.Calls.Load(), c.Blocked.Load(), c.Dropped.Load()
	o.TxUnreachable, o.GSOFallbacks = c.Unreachable.Load(), c.Fallbacks.Load()
}

// Sent counts datagrams with their total packets and bytes. An atomic operation costs as much as a
// small packet, so it is called once for everything that went out together.
func (c *Counters) Sent(datagrams, packets, bytes int) {
	c.Datagrams.Add(uint64(datagrams))
	c.Packets.Add(uint64(packets))
	c.Bytes.Add(uint64(bytes))
}

// TooLong counts packets that are too long for their path, also in the path. Only the sending side
// calls it.
func (c *Counters) TooLong(p *edge.Path, packets int) {
	p.TooLong += uint64(packets)
	c.Dropped.Add(uint64(packets))
}

// Lost counts packets that have nowhere to go at the moment, also in the path. Only the sending
// side calls it.
func (c *Counters) Lost(p *edge.Path, packets int) {
	p.Unreachable += uint64(packets)
	c.Dropped.Add(uint64(packets))
	c.Unreachable.Add(uint64(packets))
}

// Refused counts packets that the kernel did not take.
func (c *Counters) Refused(of []*edge.Path, errno unix.Errno) {
	for _, p := range of {
		switch errno {
		case unix.ENETDOWN, unix.ENXIO, unix.ENODEV, unix.ENETUNREACH, unix.EHOSTUNREACH:
			c.Lost(p, 1) // the interface is down or gone, or lacks the address; or there is no route
		case unix.EMSGSIZE:
			// The interface has a smaller MTU by now, or a router on the path has reported one
			// (ICMP), which the kernel remembers for the route.
			c.TooLong(p, 1)
		default:
			c.Dropped.Add(1)
		}
	}
}
