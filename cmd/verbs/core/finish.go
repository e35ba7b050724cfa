package main

/*
#include "../include/goroce_core.h"
*/
import "C"

import (
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/verbs"
)

// A process that ends takes what it has posted with it: there is no adapter that goes on. So its
// end waits until the peers have acknowledged it, as long as they do.
const (
	finishLook  = time.Millisecond
	finishStill = time.Second      // without anything acknowledged
	finishMost  = 30 * time.Second // in all
)

// heart counts, so that the C half sees that the end of the process goes on.
type heart struct{ beat *C.uint32_t }

// nap lets some time pass, and counts.
func (h heart) nap() {
	atomic.AddUint32((*uint32)(h.beat), 1)
	time.Sleep(finishLook)
}

//export goroce_finish
func goroce_finish(beat *C.uint32_t) {
	h := heart{beat}
	var open []*userQP
	room := map[*userQP]int{} // of the empty queue
	qps.each(func(q *userQP) {
		if _, init, err := q.Query(); err == nil {
			open, room[q] = append(open, q), init.MaxSendWR
		}
	})
	for _, q := range open {
		q.settle()
	}
	last, still := -1, time.Now()
	for begun := still; time.Since(begun) < finishMost; h.nap() {
		left := 0
		for _, q := range open {
			if q.State() >= verbs.StateRTS { // one that has failed has nothing left
				left += room[q] - core.Open(q).SendRoom()
			}
		}
		if left != last {
			last, still = left, time.Now()
		}
		if left == 0 || time.Since(still) > finishStill {
			return
		}
	}
}
