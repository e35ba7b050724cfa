package main

/*
#include "../include/goroce_core.h"
*/
import "C"

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/verbs"
	"golang.org/x/sys/unix"
)

// sendRing is struct goroce_send_ring.
type sendRing struct {
	tail   atomic.Uint64
	wanted uint32 // read in calls that the C half makes
	_      [52]byte
	head   atomic.Uint64
	limit  atomic.Uint64
	open   atomic.Uint32
	_      [44]byte
	slots  [C.GOROCE_SEND_SLOTS]sendSlot
}

// sendSlot is struct goroce_send_slot.
type sendSlot struct {
	id         uint64
	remoteAddr uint64
	rkey       uint32
	imm        uint32
	opcode     uint8
	flags      uint8
	sges       uint8
	dataLength uint8
	_          [4]byte
	content    [C.GOROCE_SEND_DATA]byte
}

var (
	_ [unsafe.Sizeof(sendRing{})]struct{}        = [C.sizeof_struct_goroce_send_ring]struct{}{}
	_ [unsafe.Sizeof(sendSlot{})]struct{}        = [C.sizeof_struct_goroce_send_slot]struct{}{}
	_ [unsafe.Offsetof(sendRing{}.head)]struct{} = [unsafe.Offsetof(
		C.struct_goroce_send_ring{}.head)]struct{}{}
	_ [unsafe.Offsetof(sendRing{}.open)]struct{} = [unsafe.Offsetof(
		C.struct_goroce_send_ring{}.open)]struct{}{}
	_ [unsafe.Offsetof(sendRing{}.slots)]struct{} = [unsafe.Offsetof(
		C.struct_goroce_send_ring{}.slots)]struct{}{}
	_ [unsafe.Offsetof(sendSlot{}.opcode)]struct{} = [unsafe.Offsetof(
		C.struct_goroce_send_slot{}.opcode)]struct{}{}
	_ [unsafe.Offsetof(sendSlot{}.content)]struct{} = [unsafe.Sizeof(C.struct_goroce_send_slot{}) -
		C.GOROCE_SEND_DATA]struct{}{}
	_ [C.GOROCE_SEND_DATA / C.sizeof_struct_ibv_sge]struct{} = [6]struct{}{}
)

const (
	// stageLook is how long the goroutine of a stage sleeps between two looks: a request that no
	// call takes waits for one to two of them, and the kernel adds 50 us to each. They become ever
	// longer, up to maxStageLook, while the program comes for all of its requests itself: a look is
	// 20 us of a CPU, most of it for waking a thread.
	stageLook    = 50 * time.Microsecond
	maxStageLook = 400 * time.Microsecond
	// stageLooks is how many looks that find nothing new close a ring.
	stageLooks = 10
	// fewStaged are requests that have waited for nothing if only the goroutine has come for them,
	// and manyStaged are worth a wait.
	fewStaged  = 2
	manyStaged = 16
	// maxStagePenalty bounds how many requests leave at once after some have waited for nothing.
	maxStagePenalty = 255
)

// staged is the state of the ring of a send queue.
type staged struct {
	seen    uint64 // tail at the last look
	still   int    // looks since that has moved
	skip    uint32 // how many times not to open
	penalty uint32
}

// missed notes that requests waited for others that did not come.
func (s *staged) missed() {
	s.penalty = min(2*s.penalty+1, maxStagePenalty)
	s.skip = s.penalty
}

// opens reports whether to open a ring that is wanted.
func (s *staged) opens() bool {
	if s.skip > 0 {
		s.skip--
		return false
	}
	return true
}

// takeStaged posts the requests in the ring, and returns how many there were. The lock of scratch
// is held.
func (q *userQP) takeStaged() int {
	r := q.ring
	if r == nil {
		return 0
	}
	head := r.head.Load()
	n := int(min(r.tail.Load()-head, uint64(len(r.slots))))
	for left := n; left > 0; {
		batch := min(left, postBatch)
		for i := range batch {
			*q.scratch.at(i) = r.slots[(head+uint64(i))%uint64(len(r.slots))].request()
		}
		if _, err := q.PostSendBatch(q.scratch.wrs[:batch]); err != nil {
			// The program was told that they are posted. The device is closed, or the C half was
			// wrong about the queue: it ends, as one does that has lost a request.
			_ = q.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState)
		}
		head += uint64(batch)
		left -= batch
		r.head.Store(head)
	}
	return n
}

// request is what a slot stands for. It refers to the slot.
func (s *sendSlot) request() verbs.SendWR {
	wr := verbs.SendWR{
		ID: s.id, Opcode: wrOpcodes[s.opcode%uint8(len(wrOpcodes))], Flags: verbs.SendFlags(s.flags & sendFlags),
		RemoteAddr: s.remoteAddr, RKey: ib.RKey(s.rkey), Imm: net32(s.imm),
	}
	if wr.Flags&verbs.SendInline != 0 {
		wr.Inline = s.content[:min(s.dataLength, uint8(len(s.content)))]
	} else if s.sges > 0 {
		list := (*[len(s.content) / C.sizeof_struct_ibv_sge]verbs.SGE)(unsafe.Pointer(&s.content))
		wr.SGList = list[:min(int(s.sges), len(list))]
	}
	return wr
}

// allowStaging opens the ring if the C half wants that, and says how much there is room for. The
// lock of scratch is held, nothing is in the ring, and nothing is put in.
func (q *userQP) allowStaging() {
	r := q.ring
	if r == nil {
		return
	}
	if r.open.Load() == 0 {
		if r.wanted == 0 || !q.staged.opens() {
			return
		}
		q.staged.seen, q.staged.still = r.tail.Load(), 0
		q.makeRoom()
		r.open.Store(1)
		q.ctx.stage.add(q)
		return
	}
	q.makeRoom()
}

// makeRoom says how many requests the queue has room for, after those that were taken.
func (q *userQP) makeRoom() {
	q.ring.limit.Store(q.ring.head.Load() + uint64(core.Open(q).SendRoom()))
}

// settle posts the requests in the ring, for a call that needs them posted.
func (q *userQP) settle() {
	q.scratch.mu.Lock()
	defer q.scratch.mu.Unlock()
	q.takeStaged()
}

// forgetRing is the end of the ring: its memory is the program's again.
func (q *userQP) forgetRing() {
	q.scratch.mu.Lock()
	q.ring = nil
	q.scratch.mu.Unlock()
	q.ctx.stage.remove(q)
}

// moreRoom is makeRoom for a program whose requests did not fit. The ring keeps its requests.
func (q *userQP) moreRoom() {
	q.scratch.mu.Lock()
	defer q.scratch.mu.Unlock()
	if q.ring != nil {
		q.makeRoom()
	}
}

// flush is takeStaged for a program that has come back by itself.
func (q *userQP) flush() {
	q.scratch.mu.Lock()
	defer q.scratch.mu.Unlock()
	if q.takeStaged() >= manyStaged {
		q.staged.penalty = 0
	}
	if q.ring != nil {
		q.makeRoom()
	}
}

// look looks after an open ring, and reports whether it has taken something.
func (q *userQP) look() bool {
	q.scratch.mu.Lock()
	defer q.scratch.mu.Unlock()
	r, v := q.ring, &q.staged
	if r == nil || r.open.Load() == 0 {
		return false
	}
	seen := v.seen
	v.seen = r.tail.Load()
	switch {
	case r.head.Load() < seen: // those waited at the last look
		if n := q.takeStaged(); n <= fewStaged {
			v.missed()
			q.closeRing()
			return true
		}
		q.makeRoom()
		v.still = 0
		return true
	case v.seen != seen:
		v.still = 0
	default:
		if v.still++; v.still >= stageLooks {
			q.closeRing()
		}
	}
	return false
}

// closeRing stops the C half from putting requests in, and takes those already there. A call that
// has just put one in checks whether the ring is still open, and otherwise posts the request
// itself.
func (q *userQP) closeRing() {
	q.ring.open.Store(0)
	q.takeStaged()
	q.ctx.stage.remove(q)
}

// stage holds the queue pairs of a context whose rings are open, and runs a goroutine that looks
// after them while there are some.
type stage struct {
	mu    sync.Mutex
	all   atomic.Pointer[[]*userQP] // changed under mu
	looks bool                      // the goroutine exists
	ended bool
}

func (s *stage) list() []*userQP {
	if p := s.all.Load(); p != nil {
		return *p
	}
	return nil
}

// add is called with the lock of the queue pair's scratch held.
func (s *stage) add(q *userQP) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := append(slices.Clone(s.list()), q)
	s.all.Store(&all)
	if !s.looks {
		s.looks = true
		go s.look()
	}
}

func (s *stage) remove(q *userQP) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(s.list()), func(o *userQP) bool { return o == q })
	s.all.Store(&all)
}

// look is the goroutine of a stage. It sleeps in a system call: the program may have all processors
// of the runtime, and the runtime's timers are as coarse as 1 ms when the process is idle.
func (s *stage) look() {
	for pause := stageLook; ; {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 50_000, 0, 0, 0) // see load.c
		ts := unix.NsecToTimespec(int64(pause))
		_ = unix.Nanosleep(&ts, nil) // a signal ends it early
		pause = min(2*pause, maxStageLook)
		for _, q := range s.list() {
			if q.look() {
				pause = stageLook
			}
		}
		s.mu.Lock()
		if len(s.list()) == 0 || s.ended {
			s.looks = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}

// end stops the stage of a context that is closed.
func (s *stage) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	for _, q := range s.list() {
		q.settle()
	}
}

//export goroce_send_room
func goroce_send_room(handle C.goroce_handle) {
	if q := qps.get(uint32(handle)); q != nil {
		q.moreRoom()
	}
}

//export goroce_flush
func goroce_flush(handle C.goroce_handle) {
	if c := contexts.get(uint32(handle)); c != nil {
		for _, q := range c.stage.list() {
			q.flush()
		}
	}
}
