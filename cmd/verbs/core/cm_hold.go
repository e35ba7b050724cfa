package main

/*
#include <rdma/rdma_cma.h>
#include "../include/goroce_cm.h"

static int ask(goroce_cm_unpolled_fn *f, uint64_t cookie) { return f(cookie); }
*/
import "C"

import (
	"sync/atomic"
	"syscall"
	"time"
)

// A program that looks for completions and then for events, and has no CPU in between, may see that
// its peer has gone before the last message. If it then ends the queue pair, that message is lost.
// So DISCONNECTED waits until the program has polled, but not for long: it need not poll. Meanwhile
// the descriptor of the channel cannot be read: programs count on an event when it can.
const (
	holdFor   = 128 * time.Millisecond
	lookEvery = 2 * time.Millisecond
)

// unpolled asks librdmacm about the messages of an ID.
var unpolled atomic.Pointer[C.goroce_cm_unpolled_fn]

//export goroce_cm_ask
func goroce_cm_ask(f *C.goroce_cm_unpolled_fn) { unpolled.Store(f) }

// mayEnd reports whether DISCONNECTED need not wait any longer.
func (id *cmID) mayEnd() bool {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.mayEndLocked()
}

func (id *cmID) mayEndLocked() bool {
	if id.heldUntil.IsZero() {
		id.heldUntil = time.Now().Add(holdFor)
	}
	// librdmacm keeps what the cookie stands for until the ID is closed.
	return id.closed || !time.Now().Before(id.heldUntil) || C.ask(unpolled.Load(), C.uint64_t(id.cookie.Load())) == 0
}

//export goroce_cm_hold
func goroce_cm_hold(handle C.goroce_handle) C.int {
	return withID(handle, func(id *cmID) C.int {
		if id.mayEndLocked() {
			return C.int(syscall.EAGAIN)
		}
		time.AfterFunc(lookEvery, id.endWhenPolled)
		return 0
	})
}

func (id *cmID) endWhenPolled() {
	id.mu.Lock()
	defer id.mu.Unlock()
	switch {
	case id.closed:
	case id.mayEndLocked():
		id.heldUntil = time.Now() // librdmacm does not hold it again
		id.ch.addExtra(cmExtra{id: id, kind: C.RDMA_CM_EVENT_DISCONNECTED})
	default:
		time.AfterFunc(lookEvery, id.endWhenPolled)
	}
}
