package verbs

// Progress is for a program that reads the ring itself and has found it empty. It sends messages
// that are held back for others, and receives packets if it is the program's turn to receive. It
// does not look at the queue. On a closed queue it does nothing. threads is how many threads of the
// program poll.
//
// A program that polls calls it after several empty looks, say 16, and less often, down to every 64
// looks, while nothing comes. It costs about 0.1 us while the device's goroutine receives, and
// about 1 us, a system call, otherwise. The calls determine who receives:
//
//   - The device's goroutine receives at first, and whenever the program does not call: it spins
//     for 30 us after traffic and then sleeps in the system call. So a program that looks at
//     memory, sleeps, or does nothing need not call. The goroutine costs a CPU while there is
//     traffic, and nothing otherwise.
//   - When calls have taken 50 us, or at once with [Config.Polling], the goroutine gives way, and
//     calls receive. The program's own work between calls does not count, up to 4 ms. This has the
//     lowest latency, and uses no CPU but the caller's.
//   - If the program then looks at memory instead of calling, another goroutine finds a waiting
//     packet after 0.1 ms: it looks every 50 us at first, and less and less often, down to every 3
//     ms, while the program goes on calling and posting. The device's goroutine takes over, and
//     gives way only after twice as many calls as before, up to 5 ms of them. So a program that
//     does both pays for it less and less often.
//   - After such a packet, a call that receives only acknowledgements looks on for a request for 50
//     us. So a program that polls until its message is acknowledged, and then looks at memory for
//     the answer, finds it there. If no request follows, calls do so less and less often.
//   - If more threads of the program poll than half of the CPUs, a call lets other threads run: a
//     peer may be on this machine. Otherwise each would keep a CPU for a time slice, milliseconds.
//   - [CQ.RequestNotify] on a queue with CQOptions.OnEvent says that the program goes to sleep: the
//     goroutine takes over at once.
func (c *cqCore) Progress(threads int) {
	cq := (*CQ)(c)
	if cq.t == nil || cq.dead.Load() || cq.s.Closed() {
		return
	}
	cq.s.Progress(threads)
	if others := cq.feeders.Load(); others != nil {
		for _, s := range *others {
			s.Progress(threads)
		}
	}
}

// unattended records that the application will stop calling for a while: the goroutines of the
// shards that complete here receive from now on.
func (cq *CQ) unattended() {
	by := cq.sleeper.Load()
	cq.s.UnattendedBy(by)
	if others := cq.feeders.Load(); others != nil {
		for _, s := range *others {
			s.UnattendedBy(by)
		}
	}
}
