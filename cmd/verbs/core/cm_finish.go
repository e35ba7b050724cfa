package main

/*
#include "../include/goroce_cm.h"
*/
import "C"

import (
	"syscall"
	"time"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/rsocket"
)

// The kernel ends what a process has left open, and its peers hear of it at once. Here nobody is
// left to do so when the process is gone.
//
//export goroce_cm_finish
func goroce_cm_finish(beat *C.uint32_t) {
	goroce_finish(beat) // what goes with the connections
	finishStreams(heart{beat})
	cmIDs.each((*cmID).close)
}

// finishStreams ends the rsockets that are open, in order: their peers have what was written, or
// the time of a Close is over. And those that were closed have some time to see their goodbye
// arrive.
func finishStreams(h heart) {
	deadline := time.Now().Add(rsLinger)
	var open []*rsocket.Conn
	rsSockets.each(func(s *rsSocket) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.state == rsConnected {
			open = append(open, s.conn)
		}
	})
	rsBehind.mu.Lock()
	for c := range rsBehind.conns {
		open = append(open, c)
	}
	rsBehind.mu.Unlock()
	for _, c := range open {
		core.Open(c).Notify(nil)
		_ = core.Open(c).TryDisconnect() // all are told before one is waited for
	}
	for _, c := range open {
		for core.Open(c).TryDisconnect() == syscall.EAGAIN && time.Now().Before(deadline) {
			h.nap()
		}
		_ = closeNow(c) // there is nobody to tell
	}
	for begun := time.Now(); rsLingering() && time.Since(begun) < finishStill; {
		h.nap()
	}
}

// rsLingering reports whether goodbyes are on their way.
func rsLingering() bool {
	devices.mu.Lock()
	defer devices.mu.Unlock()
	for _, d := range devices.open {
		if rsocket.Lingering(d.Device).Conns > 0 {
			return true
		}
	}
	return false
}
