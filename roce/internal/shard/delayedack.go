package shard

import "sync/atomic"

// delayedAck keeps an acknowledgement back while the application, just given what came in, may
// reply. The reply and the acknowledgement then leave in one datagram, with one system call. An
// acknowledgement sent at once would delay the reply by the 2 to 4 us that it takes, in both
// directions.
//
// A delay ends with the next thing sent. If the shard's goroutine receives, it ends when that
// goroutine runs again after those it has woken. Otherwise it ends at the next poll, or when that
// goroutine takes over (keeper), since the application has gone to do something else. A program in
// another language may poll other queues before it replies, as UCX does, so its polls end only what
// has waited for attentionGapNs. Its threads do not run before that goroutine does, so there a
// delay ends when that goroutine is about to sleep. The more delays in succession bring no reply,
// the fewer are tried.
type delayedAck struct {
	on      atomic.Bool  // written with the lock held
	since   atomic.Int64 // on the clock of the link
	backOff              // of a delay
	count   uint64       // delays so far
}

// begin starts a delay, if only acknowledgements are to be sent. Packets that come during one do
// not prolong it.
func (a *delayedAck) begin(now int64, onlyAcks bool) bool {
	if !onlyAcks || !a.due() {
		return false
	}
	a.count++
	if !a.on.Swap(true) {
		a.since.Store(now)
	}
	return true
}

// delayed reports whether an acknowledgement is kept back.
func (a *delayedAck) delayed() bool { return a.on.Load() }

// answered ends a delay that brought a reply.
func (a *delayedAck) answered() {
	if a.on.Load() {
		a.on.Store(false)
		a.paid()
	}
}

// fruitless ends a delay that brought nothing. It reports false if there is none.
func (a *delayedAck) fruitless() bool {
	if !a.on.Load() {
		return false
	}
	a.on.Store(false)
	a.backOff.failed()
	return true
}

// over reports whether a delay ends although the goroutine of the shard goes on to look; threads
// says that it has woken threads, and not goroutines.
func (a *delayedAck) over(now int64, threads bool) bool {
	return !threads || now-a.since.Load() >= hoggedNs
}
