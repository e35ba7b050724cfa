package transport

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport/cc"
)

// Engine is one shard of a device: its queue pairs and their timers. See the
// package comment for how it is driven.
type Engine struct {
	cfg      Config
	counters Counters
	qps      map[ib.QPN]*QP
	lastQP   *QP // the QP of the last packet: runs of packets need one lookup

	ready  readyList
	timers timerQueue
	events eventQueue
	mcast  mcastTable
	notify *cc.NotificationPoint // when CNPs may be sent; made at the first mark

	rx ib.Packet // the packet being handled
}

// New returns an engine without QPs.
func New(cfg Config) (*Engine, error) {
	panic("contract only")
}

// HandlePacket takes one received packet. It never fails: what is wrong with
// the packet ends in a counter, a NAK or an error of the QP.
func (e *Engine) HandlePacket(now int64, rx *RxPacket) {}

// HandleTimeout runs the timers that are due at now.
func (e *Engine) HandleTimeout(now int64) {}

// NextTimeout returns when HandleTimeout is due, or false if no timer runs.
func (e *Engine) NextTimeout() (at int64, ok bool) { return 0, false }

// PollTransmit fills batch with packets to send and returns how many; 0 means
// that there is nothing to send now. Packets of one QP come in runs, so that a
// link can send them as one segmented datagram. Every descriptor is valid
// until the next call of any engine method.
func (e *Engine) PollTransmit(now int64, batch []TxPacket) int { return 0 }

// PollEvent returns the next notification, or false.
func (e *Engine) PollEvent() (Event, bool) { return Event{}, false }

// Counters returns a copy of the counters.
func (e *Engine) Counters() Counters { return e.counters }
