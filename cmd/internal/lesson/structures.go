package lesson

import (
	"encoding/binary"
	"fmt"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/verbs"
)

func structures() []lesson {
	return []lesson{
		{
			name: "ring", title: "A ring in B's memory", after: []string{"visible", "read"},
			text: `Many protocols have no SENDs at all: A writes its records into a ring of slots in B's memory, one after the other, and B's program looks at the next slot until its number appears there. No receive, no completion at B, no RNR NAK. But nobody stops A either: it must not write a slot that B has not read. B keeps a count of what it has taken, in its own memory, and A reads that when the ring may be full.`,
			params: []param{
				{name: "slots", def: 4, min: 1, max: 64, help: "slots of the ring"},
				{name: "records", def: 10, min: 2, max: 64, help: "records that A writes"},
				{name: "every", def: 12, min: 1, max: 100, help: "microseconds that B needs for a record"},
				{name: "check", def: 1, min: 0, max: 1, help: "0: A does not read B's count"},
			},
			play: playRing,
			questions: []question{
				{"B needs longer for a record than A. What happens if A does not check?", func(r *run) string {
					if r.v["check"] == 1 {
						return "A writes over records that B has not seen, and no packet shows it: every WRITE succeeds. See with check=0."
					}
					return "What you see: every WRITE succeeds, and B misses records. Nothing in the packets is wrong."
				}},
				{"Why is A's READ of the count not a race?",
					says("The count only grows. If A reads an old one it waits longer than it must, and that is all. Structures for one-sided access are built so that what is read late is still safe.")},
			},
			tries: []string{"check=0", "every=2"},
		},
		{
			name: "lock", title: "A lock, and a counter that it guards", after: []string{"ring", "atomic", "fence"},
			text: `Two clients change a counter in B's memory: each reads it, adds one, and writes it back. Without a lock one of them overwrites the other's. The lock is a word at B: COMPARE_SWAP makes it 1 if it is 0, and tells what it was. Who got 0 has the lock, and frees it with a WRITE of 0 behind the new count. A READ that finds 0, followed by a WRITE of 1, is no lock: both may find 0. Client 1 and client 2 have a connection each, [1] and [2]; the queues beside are client 1's.`,
			params: []param{
				{name: "rounds", def: 2, min: 1, max: 16, help: "how often each client adds one"},
				{name: "atomic", def: 1, min: 0, max: 1, help: "0: READ and WRITE instead of COMPARE_SWAP"},
			},
			play: playLock,
			questions: []question{
				{"Two clients add one each, so many times. What will the counter be?", func(r *run) string {
					return fmt.Sprintf(
						"%d, of %d. With COMPARE_SWAP it is always all of them: looking and taking are one step there.",
						binary.NativeEndian.Uint64(r.b()[8:]), 2*r.v["rounds"])
				}},
				{"When would FETCH_ADD do?",
					says("For a counter alone: it is one request, and no lock is needed. Locks are for what does not fit in 8 bytes, and cost two round trips more, or many if somebody else has them.")},
				{"What if a client dies with the lock?",
					says("Nobody frees it. Real locks hold who has them and until when, and the others may take them after that.")},
			},
			tries: []string{"atomic=0"},
		},
	}
}

// playRing has A fill a ring at B's memory 64, with B's count at 0.
func playRing(r *run) error {
	slots, every := r.v["slots"], r.v["every"]
	word := func(off int) uint64 { return binary.NativeEndian.Uint64(r.b()[off:]) }
	var taken, got, missed uint64
	all := uint64(r.v["records"])
	r.watch(every, 1_000_000, func() bool {
		slot := word(64 + int(taken)%slots*8)
		if slot > taken {
			missed += slot - taken - 1
			taken = slot
			got++
			binary.NativeEndian.PutUint64(r.b(), taken)
		}
		return taken < all
	})
	var reads int
	known := uint64(0)
	mine := r.s.Hosts[0].MR.Bytes()
	one := func(w verbs.SendWR) error {
		wcs, err := r.s.Do(0, w)
		if err == nil && wcs[0].Status != verbs.WCSuccess {
			err = fmt.Errorf("%v", wcs[0].Status)
		}
		return err
	}
	for i := uint64(1); i <= all; i++ {
		for r.v["check"] == 1 && i > known+uint64(slots) {
			if err := one(r.word(verbs.WRRead, 8, 0)); err != nil {
				return err
			}
			known = binary.NativeEndian.Uint64(mine[8:])
			reads++
		}
		binary.NativeEndian.PutUint64(mine, i)
		if err := one(r.word(verbs.WRWrite, 0, 64+int(i-1)%slots*8)); err != nil {
			return err
		}
	}
	r.say("At %.1f us A has written all %d records, and has read B's count %d times.", r.us(), all, reads)
	r.s.Net.RunFor(1e9)
	r.say("B has had %d of %d records; %d were overwritten before it looked.", got, all, all-got)
	return nil
}

// client is one of two that share a lock: what it is about to do.
type client struct {
	qp    *verbs.QP
	off   int // of its buffers in A's memory
	step  int
	left  int
	tries int
}

// playLock has two clients on A use a lock at B's memory 0, and the counter at 8.
func playLock(r *run) error {
	a, b := r.s.Hosts[0], r.s.Hosts[1]
	qps := [2]*verbs.QP{}
	for i, h := range r.s.Hosts {
		var err error
		if qps[i], err = h.PD.CreateQP(verbs.QPInitAttr{
			Type: verbs.RC, SendCQ: h.CQ, QPN: ib.QPN(0x33 + i*0x11),
		}); err != nil {
			return err
		}
		qps[i].SetPSN([]ib.PSN{7000, 9000}[i])
	}
	for i := range qps {
		if err := qps[i].Connect(qps[1-i].LocalInfo(0), nil); err != nil {
			return err
		}
	}
	clients := [2]*client{{qp: a.QP, off: 0, left: r.v["rounds"]}, {qp: qps[0], off: 64, left: r.v["rounds"]}}
	mem := a.MR.Bytes()
	for i, c := range clients {
		if err := c.post(r, uint64(i+1)); err != nil {
			return err
		}
	}
	for waiting := 2; waiting > 0; {
		wcs, err := r.s.Await(0, 1)
		if err != nil {
			return err
		}
		for _, wc := range wcs {
			if wc.Status != verbs.WCSuccess {
				return fmt.Errorf("%v", wc.Status)
			}
			if wc.ID == 0 || wc.ID > 2 {
				continue
			}
			c := clients[wc.ID-1]
			if c.next(mem, r.v["atomic"] == 1); c.left == 0 {
				waiting--
				r.say("At %.1f us client %d is done; it tried for the lock %d times.", r.us(), wc.ID, c.tries)
				continue
			}
			if err := c.post(r, wc.ID); err != nil {
				return err
			}
		}
	}
	r.say("The counter is %d. Each client has added one %d times.",
		binary.NativeEndian.Uint64(b.MR.Bytes()[8:]), r.v["rounds"])
	return nil
}

// The steps of a client.
const (
	look    = iota // COMPARE_SWAP of the lock, or READ
	take           // WRITE of 1, if it was a READ
	read           // the counter
	release        // write it back, and free the lock behind it
)

// post posts what the client does next.
func (c *client) post(r *run, id uint64) error {
	mem := r.s.Hosts[0].MR.Bytes()
	var w verbs.SendWR
	switch c.step {
	case look:
		c.tries++
		if w = r.word(verbs.WRRead, c.off, 0); r.v["atomic"] == 1 {
			w.Opcode, w.CompareAdd, w.Swap = verbs.WRCompareSwap, 0, 1
		}
	case take:
		binary.NativeEndian.PutUint64(mem[c.off:], 1)
		w = r.word(verbs.WRWrite, c.off, 0)
	case read:
		w = r.word(verbs.WRRead, c.off+8, 8)
	case release:
		n := binary.NativeEndian.Uint64(mem[c.off+8:])
		binary.NativeEndian.PutUint64(mem[c.off+8:], n+1)
		w = r.word(verbs.WRWrite, c.off+8, 8)
		if err := c.send(r, &w); err != nil {
			return err
		}
		binary.NativeEndian.PutUint64(mem[c.off+16:], 0)
		w = r.word(verbs.WRWrite, c.off+16, 0)
	}
	w.ID, w.Flags = id, verbs.SendSignaled
	return c.send(r, &w)
}

// send posts a request on the client's queue pair. The queues that are shown are those of client 1.
func (c *client) send(r *run, w *verbs.SendWR) error {
	if c.qp == r.s.Hosts[0].QP {
		return r.s.Post(0, w)
	}
	defer r.s.Note(0)
	return c.qp.PostSend(w)
}

// next takes the client on after its request has completed.
func (c *client) next(mem []byte, atomic bool) {
	switch had := binary.NativeEndian.Uint64(mem[c.off:]); {
	case c.step == look && had != 0: // the other one has it: again
	case c.step == look && atomic:
		c.step = read
	case c.step == release:
		c.step = look
		c.left--
	default:
		c.step++
	}
}
