package roce

import (
	"runtime/debug"

	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport"
)

// Memory that an application registers may go away: a mapped file is truncated,
// pages are unmapped. Whoever touches it next gets a SIGBUS or a SIGSEGV, and
// that is us, when a peer asks for it. Whatever touches registered memory is called
// from this file: here such a signal becomes a panic (debug.SetPanicOnFault, which holds for a
// goroutine and costs 2 ns), the engine or this file recovers from it, and the
// queue pair fails. It is done once for a batch of packets, not for each.

// handle has the engine take received packets. mu is held.
func (d *Device) handle(now int64, rx []transport.RxPacket) {
	if len(rx) == 0 {
		return
	}
	before := debug.SetPanicOnFault(true)
	d.eng.HandlePackets(now, rx) // contains them
	debug.SetPanicOnFault(before)
}

// pollTransmit has the engine fill d.tx. mu is held.
func (d *Device) pollTransmit(now int64) int {
	before := debug.SetPanicOnFault(true)
	n := d.eng.PollTransmit(now, d.tx)
	debug.SetPanicOnFault(before)
	return n
}

// postSend is PostSend of the engine. Only inline data is read here. mu is held.
func (qp *QP) postSend(now int64, wr *SendWR) error {
	if qp.typ == UD {
		qp.d.eng.SetMTU(qp.d.activeMTU()) // which bounds the message
	}
	if wr == nil || wr.Flags&SendInline == 0 {
		return qp.t.PostSend(now, wr)
	}
	before := debug.SetPanicOnFault(true)
	err := qp.t.PostSend(now, wr)
	debug.SetPanicOnFault(before)
	return err
}

// send gives packets to the link, which reads the payloads from registered memory. mu is held.
func (d *Device) send(now int64, batch []transport.TxPacket) {
	before := debug.SetPanicOnFault(true)
	for len(batch) > 0 {
		batch = batch[d.sendUpTo(now, batch):]
	}
	debug.SetPanicOnFault(before)
}

// sendUpTo sends packets until the payload of one is not there, and returns how many
// the link is done with, with that one: see link.Link.
func (d *Device) sendUpTo(now int64, batch []transport.TxPacket) (n int) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		addr, ok := mem.FaultAddr(v)
		if !ok {
			panic(v)
		}
		for i := range batch {
			if d.eng.TransmitFault(now, &batch[i], addr) {
				n = i + 1
				// What follows of the same request would fare no better.
				for n < len(batch) && batch[n].SrcQP == batch[i].SrcQP && batch[n].NumFrags > 0 {
					n++
				}
				return
			}
		}
		panic(v) // nothing that is registered
	}()
	d.link.Send(batch)
	return len(batch)
}

// touch runs f, which accesses the region. mu is held.
func (mr *MR) touch(op string, f func() int) (n int, err error) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		v := recover()
		debug.SetPanicOnFault(before)
		if v == nil {
			return
		}
		if addr, ok := mem.FaultAddr(v); !ok || mr.d.table.Lose(addr) == 0 {
			panic(v)
		}
		n, err = 0, lostError(op)
	}()
	return f(), nil
}

func lostError(op string) error { return &OpError{Op: op, Err: mem.FaultMemory} }

// Lost reports whether the memory of the region turned out not to be there when
// it was accessed: a mapped file was truncated, or the pages were unmapped. The keys
// of such a region are refused from then on. It is to be deregistered, or given
// other memory with Reregister.
func (mr *MR) Lost() bool {
	if mr.d.lock() != nil {
		return false
	}
	defer mr.d.mu.Unlock()
	return mr.t.Lost()
}
