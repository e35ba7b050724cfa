package shard

// This file decides when what there is to send leaves: now, or together with something else. All
// that begins a wait, and all that ends one, is here.
//
// After packets were handled (afterReceive), acknowledgements wait
//
//   - for what else is at hand in the link, while the goroutine of the shard is at work;
//   - for a reply that the application may be about to post (delayedAck), until endAckDelay is called
//     by a receiver that has given the application its chance.
//
// A message that is posted (Posted) waits
//
//   - for more of its kind, if others of its queue pair are on their way, or for the messages of
//     others that were woken with its poster (coalescer), until SendPosted is called.
//
// Nothing else waits in the shard, and whatever is sent takes along all that waits (Flush). Before
// the goroutine of the shard sleeps it sends all.

// next is what becomes of what there is to send after packets were handled.
type next uint8

const (
	sendNow     next = iota
	receiveMore      // first, and then ask again
	awaitReply       // of the application
)

// received is what is known then.
type received struct {
	now        int64
	background bool // the goroutine of the shard is at work, and comes back soon
	packets    int  // in the last batch
	gathered   int  // in all batches since something was sent
	timer      bool // one is due, and may have run
	lookOnce   bool // one is due, and waits for a look at the link that finds nothing
	onlyAcks   bool // there is nothing to send but acknowledgements
	woke       bool // the packets were waited for
	// expectReply reports whether the application is likely to send something next.
	// It is called at most once.
	expectReply func() bool
}

// afterReceive decides what to do with what there is to send after packets were handled.
func (a *delayedAck) afterReceive(r received) next {
	switch {
	case r.lookOnce && r.packets == 0:
		return receiveMore // then the timers can run
	case r.background && r.packets > 0 && r.gathered < gather && !r.timer && !r.woke && r.onlyAcks:
		return receiveMore
	case !r.timer && r.expectReply() && a.begin(r.now, r.onlyAcks):
		return awaitReply
	}
	return sendNow
}

// Posted sends a message that was just posted, or leaves it to be sent with others. inFlight says
// that others of its queue pair are on their way; bytes is its length. The lock is held.
func (s *Shard) Posted(now int64, inFlight bool, bytes int) {
	s.notePost()
	if inFlight {
		s.lease.posted()
	}
	if s.blocked || !s.mayWait(inFlight) || !s.posts.add(now, bytes) {
		s.posts.joins()
		s.Flush(now)
	}
}

// mayWait reports whether a message that was just posted may be sent with others. The lock is held.
func (s *Shard) mayWait(inFlight bool) bool {
	if s.Background() {
		return inFlight || s.posts.crowd.Load()
	}
	busy := s.busy() // the poster is one of those
	return (busy > crowdSize || busy > 1 && s.posts.n.Load() < crowdSize) && s.posts.due()
}

// PostedAll sends messages that were posted together, at once. The lock is held.
func (s *Shard) PostedAll(now int64) {
	s.notePost()
	s.lease.against()
	s.Flush(now)
}

// SendBeforeWait is SendPosted for a poster that is going to wait. It leaves the sending to the
// goroutine of the shard if that has woken others as well, which may also post.
func (s *Shard) SendBeforeWait() {
	if !s.posts.crowd.Load() {
		s.SendPosted()
	}
}

// SendPosted sends messages that wait, before their poster sees an empty completion queue.
func (s *Shard) SendPosted() {
	if !s.posts.waiting() {
		return
	}
	s.mu.Lock()
	if !s.shut && s.posts.waiting() {
		s.Flush(s.link.Now())
	}
	s.mu.Unlock()
}

// Received sends the credits that a peer waits for, if the connections have any, after a receive
// was posted, and hands out what came of one that was posted in ERR. The lock is held.
func (s *Shard) Received() {
	s.handOut()
	if s.credits && !s.ack.delayed() { // at the end of a delay they leave anyway
		s.Flush(s.link.Now())
	}
}

// releaseAck ends a delay that brought nothing, and sends. It reports false if there is
// none. The lock is held.
func (s *Shard) releaseAck(now int64) bool {
	if !s.ack.fruitless() {
		return false
	}
	s.Flush(now)
	return true
}

// endPolledAckDelay is endAckDelay for a poll.
func (s *Shard) endPolledAckDelay() {
	if s.ack.delayed() && (!s.foreign.Load() || s.link.Now()-s.ack.since.Load() >= attentionGapNs) {
		s.endAckDelay()
	}
}

// endAckDelay is releaseAck for callers without the lock.
func (s *Shard) endAckDelay() {
	if !s.ack.delayed() {
		return
	}
	s.mu.Lock()
	if !s.shut {
		s.releaseAck(s.link.Now())
	}
	s.mu.Unlock()
}

// busy returns how many answers the threads in the seat may post soon.
func (s *Shard) busy() int {
	if heir := s.heir.Load(); heir.inside() {
		return heir.sleeper.Busy()
	}
	return 0
}

// sendUnlessBusy sends what waits for the answers of threads, when there will be no more.
func (s *Shard) sendUnlessBusy() {
	if (s.posts.waiting() || s.ack.delayed()) && s.busy() == 0 {
		s.endAckDelay()
		s.SendPosted()
	}
}
