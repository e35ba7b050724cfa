package verbs

import "github.com/goroce/goroce/roce/internal/shard"

// Progress does for a program that looks at [CQ.Ring] by itself, and has found nothing, what an empty
// [CQ.Poll] does: messages that wait for others are sent, and packets are received unless the goroutine of the device
// does. It does not look at the queue. On a queue that is closed it does nothing.
//
// A program that polls calls it after some looks in vain, and goes on: 16 looks take less time than one
// call. One that looks at memory instead, or sleeps, need not call it: the goroutine of the device takes over.
func (cq *CQ) Progress() {
	if cq.t == nil || cq.dead.Load() || cq.s.Closed() {
		return
	}
	cq.s.Poll(shard.Always)
	if others := cq.feeders.Load(); others != nil {
		for _, s := range *others {
			s.Poll(shard.Always)
		}
	}
}

// unattended notes that the application is about to do something else than to call: the goroutines of the
// shards that complete here receive from now on.
func (cq *CQ) unattended() {
	cq.s.Unattended()
	if others := cq.feeders.Load(); others != nil {
		for _, s := range *others {
			s.Unattended()
		}
	}
}
