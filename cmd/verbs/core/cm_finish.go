package main

/*
#include "../include/goroce_cm.h"
*/
import "C"

import (
	"syscall"
	"time"

	"github.com/goroce/goroce/roce/rsocket"
)

// The kernel ends what a process has left open, and its peers hear of it at once. Here nobody is left to do so when the
// process is gone.
//
//export goroce_cm_finish
func goroce_cm_finish(timeoutMs C.int) C.int {
	const look = time.Millisecond
	deadline := time.Now().Add(time.Duration(timeoutMs) * time.Millisecond)
	var open []*rsocket.Conn
	rsSockets.each(func(s *rsSocket) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.state == rsConnected {
			open = append(open, s.conn)
		}
	})
	for _, c := range open {
		c.Notify(nil)
		_ = c.TryDisconnect() // all are told before one is waited for
	}
	for _, c := range open {
		for c.TryDisconnect() == syscall.EAGAIN && time.Now().Before(deadline) {
			time.Sleep(look)
		}
		_ = c.Close() // there is nobody to tell
	}
	cmIDs.each((*cmID).close)
	return 0
}
