package shard

import (
	"runtime/debug"

	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport"
)

// Registered memory may go away: the application truncates a mapped file or unmaps pages. The next
// access gets a SIGBUS or a SIGSEGV, and the access is ours when a peer asks for that memory. All
// calls that touch registered memory are in this file. Here such a signal becomes a panic
// (debug.SetPanicOnFault, which holds for a goroutine and costs 2 ns), the engine or this file
// recovers, and the queue pair fails. SetPanicOnFault is called per batch, not per packet.

// handle passes received packets to the engine. The lock is held.
func (s *Shard) handle(now int64, rx []transport.RxPacket) {
	if len(rx) == 0 {
		return
	}
	before := debug.SetPanicOnFault(true)
	s.eng.HandleUnverified(now, rx, s.checker) // contains them
	debug.SetPanicOnFault(before)
}

// pollTransmit has the engine fill s.tx. The lock is held.
func (s *Shard) pollTransmit(now int64) int {
	before := debug.SetPanicOnFault(true)
	n := s.eng.PollTransmit(now, s.tx)
	debug.SetPanicOnFault(before)
	return n
}

// PostSend posts a request to the engine, which reads inline data. The lock is held.
func (s *Shard) PostSend(now int64, qp *transport.QP, wr *transport.SendWR) error {
	if wr == nil || wr.Flags&transport.SendInline == 0 {
		return qp.PostSend(now, wr)
	}
	before := debug.SetPanicOnFault(true)
	err := qp.PostSend(now, wr)
	debug.SetPanicOnFault(before)
	return err
}

// send passes packets to the link, which reads the payloads from registered memory. The lock is
// held.
func (s *Shard) send(now int64, batch []transport.TxPacket) {
	before := debug.SetPanicOnFault(true)
	for len(batch) > 0 {
		batch = batch[s.sendUpTo(now, batch):]
	}
	debug.SetPanicOnFault(before)
}

// sendUpTo sends packets up to the first whose payload is gone. It returns how many the link is
// done with, that one included: see link.Link.
func (s *Shard) sendUpTo(now int64, batch []transport.TxPacket) (n int) {
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
			if s.eng.TransmitFault(now, &batch[i], addr) {
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
	s.link.Send(batch)
	return len(batch)
}

// Touch runs f, which accesses registered memory. If the memory is gone, Touch marks its regions as
// lost and reports false. The lock is held.
func (s *Shard) Touch(f func() int) (n int, there bool) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		v := recover()
		debug.SetPanicOnFault(before)
		if v == nil {
			return
		}
		if addr, ok := mem.FaultAddr(v); !ok || s.table.Lose(addr) == 0 {
			panic(v)
		}
		n, there = 0, false
	}()
	return f(), true
}
