package verbs

// Progress is for a program that looks at the ring by itself, and has found nothing: it sends
// messages that wait for others, and receives packets if it is the program that is to receive. It
// does not look at the queue. On a queue that is closed it does nothing.
//
// A program that polls calls it after some looks in vain, 16 say, and after ever more of them, up
// to 64, while nothing comes; it costs about 0.1 us while the goroutine of the device receives, and
// about 1 us, a system call, otherwise. Who receives follows from the calls:
//
//   - The goroutine of the device receives, at first and whenever the program does not call: it
//     spins for 30 us after traffic and then sleeps in the system call. So a program that looks at
//     memory, sleeps, or does nothing need not call. It costs a CPU while there is traffic, and
//     nothing while there is none.
//   - When calls have taken 50 us, or at once with [Config.Polling], the goroutine gives way, and
//     calls receive. What the program does in between does not count, up to 4 ms. That is the
//     lowest latency, and costs no CPU but the caller's.
//   - A packet that the program then does not take, since it looks at memory after all, is found
//     after 0.1 ms: another goroutine looks, every 50 us at first and ever more rarely, up to 3 ms,
//     while the program goes on calling and posting. The goroutine of the device takes over, and it
//     takes twice as many calls as before, up to 5 ms of them, to make it give way again. So a
//     program that does both pays for that less and less often.
//   - After such a packet a call that receives nothing but acknowledgements looks on for a request,
//     for 50 us: so that a program that polls until its message is acknowledged, and then looks at
//     memory for the answer, finds it there. Where no request follows it does so ever more rarely.
//   - A thread that gets less than a quarter of a CPU, since others want it, is not left the work,
//     nor does it send what it posts: if it lost the CPU while it has the lock of the device,
//     nobody would be answered for as long.
//   - [CQ.RequestNotify] of a queue with CQOptions.OnEvent says that the program goes to sleep: the
//     goroutine takes over at once.
//
// While the goroutine is not at work, messages of a connected queue pair that are posted within 5
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

// unattended notes that the application is about to do something else than to call: the goroutines
// of the shards that complete here receive from now on.
func (cq *CQ) unattended() {
	cq.s.Unattended()
	if others := cq.feeders.Load(); others != nil {
		for _, s := range *others {
			s.Unattended()
		}
	}
}
