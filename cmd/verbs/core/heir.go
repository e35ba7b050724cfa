package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// A parent that ends gives up its services one by one, after the descriptor that tells of its end.
const (
	giveUpLook = time.Millisecond
	giveUpMost = time.Second
)

// whenGone waits until the parent of this process has gone, and then repeats try until it reports
// success, or for a while. The descriptor is readable once the parent has gone.
func whenGone(parent int, try func() bool) {
	p := []unix.PollFd{{Fd: int32(parent), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(p, -1)
		if n > 0 {
			break
		}
		if err != unix.EINTR {
			return
		}
	}
	for begun := time.Now(); !try(); time.Sleep(giveUpLook) {
		if time.Since(begun) > giveUpMost {
			say("a service of the process that this one was forked from is another one's now")
			return
		}
	}
}
