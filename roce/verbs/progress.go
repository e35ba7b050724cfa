package verbs

// Progress is for a program that reads the ring itself and has found it empty. It sends messages
// that are held back for others, and receives packets if it is the program's turn to receive. It
// does not look at the queue. On a closed queue it does nothing.
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
//   - A thread that gets less than a quarter of a CPU because others compete for it is not left to
//     receive, and does not send what it posts: if it lost the CPU while it held the device's lock,
//     no peer would be answered for that long.
//   - [CQ.RequestNotify] on a queue with CQOptions.OnEvent says that the program goes to sleep: the
//     goroutine takes over at once.
//
// While the goroutine does not receive, messages of a connected queue pair that are posted within 5
// us of each other, with others on their way, leave together: with the next Progress, when there
// are 32 of them or 60 KiB, or after 0.1 ms at the latest. So does the first one after a burst of
// more than 16. Any other leaves at once.
func (c *cqCore) Progress() {
	cq := (*CQ)(c)
	if cq.t == nil || cq.dead.Load() || cq.s.Closed() {
		return
	}
	cq.s.Progress()
	if others := cq.feeders.Load(); others != nil {
		for _, s := range *others {
			s.Progress()
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
