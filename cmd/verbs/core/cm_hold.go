package main

/*
#include <rdma/rdma_cma.h>
#include "../include/goroce_cm.h"
*/
import "C"

import (
	"syscall"
	"time"
)

// maxHeld bounds a wait of goroce_cm_hold. All of them together take nearly twice as long.
const maxHeld = 64 * time.Millisecond

// A program that looks for completions and then for events, and has no CPU in between, may see that
// its peer has gone before the last message. If it then ends the queue pair, that message is lost.
// So DISCONNECTED waits until the program has polled, but not for long: it need not poll.
//
//export goroce_cm_hold
func goroce_cm_hold(handle C.goroce_handle) C.int {
	return withID(handle, func(id *cmID) C.int {
		id.held = max(2*id.held, time.Millisecond)
		if id.held > maxHeld {
			return C.int(syscall.EAGAIN)
		}
		time.AfterFunc(id.held, func() {
			id.mu.Lock()
			defer id.mu.Unlock()
			if !id.closed {
				id.ch.addExtra(cmExtra{id: id, kind: C.RDMA_CM_EVENT_DISCONNECTED})
			}
		})
		return 0
	})
}
