package lesson

import (
	"fmt"
	"math"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/verbs"
)

func memory() []lesson {
	return []lesson{
		{
			name: "memory", title: "Registered memory, and its two keys", after: []string{"connect"},
			text: `A device touches memory only if it is registered. A registered region (MR) has two keys: the lkey, for this program's own requests, and the rkey, which it gives to peers. What a peer may do is decided at registration: nothing, write, read, atomics. Here B registers a region, and A tries one WRITE and one READ of it, each on a connection of its own, since a refusal ends a connection.`,
			params: []param{
				{name: "access", def: 1, min: 0, max: 3, help: "what B permits: 0 nothing, 1 WRITE, 2 READ, 3 both",
					refuse: func(v values, given bool) string {
						if given && v["closed"] == 1 {
							return "the region is closed before A comes: what it permitted changes nothing"
						}
						return ""
					}},
				{name: "closed", def: 0, min: 0, max: 1, help: "1: B ends the registration before A's requests"},
			},
			play: func(r *run) error {
				b := r.s.Hosts[1]
				access := verbs.LocalWrite
				if r.v["access"]&1 != 0 {
					access |= verbs.RemoteWrite
				}
				if r.v["access"]&2 != 0 {
					access |= verbs.RemoteRead
				}
				mr, err := b.PD.RegisterMR(make([]byte, 4096), access,
					&verbs.MROptions{SetIOVA: true, IOVA: 0x30_0000_0000})
				if err != nil {
					return err
				}
				addr, rkey := mr.Addr(), mr.RKey()
				if r.v["closed"] == 1 {
					if err := mr.Close(); err != nil {
						return err
					}
				}
				for i, w := range []verbs.SendWR{r.s.Write(0, 64), r.s.Read(0, 64)} {
					w.RemoteAddr, w.RKey = addr, rkey
					status, err := r.s.Try(w, i)
					if err != nil {
						return err
					}
					r.say("The %v ends with: %v.", []string{"WRITE", "READ"}[i], status)
				}
				return nil
			},
			questions: []question{
				{"B permits only WRITE. How does the READ end, and who decides?",
					says("B's device refuses it, with a NAK for a remote access error: B's program is not asked. The rkey is right, and still opens only what the registration says.")},
				{"Which of the two keys is in a packet?", says(
					"The rkey, in the RETH of the first packet of a WRITE or READ. The lkey never leaves the host.")},
				{"Why is memory registered at all?",
					says("So that the device knows where the pages are and that they stay there, without asking anybody while packets come. It costs microseconds or more, so programs register once and use it often.")},
			},
			tries: []string{"access=2", "access=0", "closed=1"},
		},
		{
			name: "write", title: "A WRITE: the other program does nothing", after: []string{"memory"},
			text: `An RDMA WRITE names the memory it goes to: an address and an rkey that the other side has given away before. The other side's program does nothing, and learns nothing of it: no receive is consumed, no completion appears there. Only the first packet of a message carries address and key (RETH); the others go behind it.`,
			params: []param{{name: "bytes", def: 5000, min: 0, max: 100_000, help: "length of the WRITE"}, {name: "mtu",
				def: 3, min: 1, max: 5, help: "path MTU: 1 is 256, 2 is 512, 3 is 1024, 4 is 2048, 5 is 4096 bytes"}},
			cfg: func(v values) stage.Config { return stage.Config{MTU: ib.MTU(v["mtu"])} },
			play: func(r *run) error {
				copy(r.s.Hosts[0].MR.Bytes(), "hello")
				err := r.do(r.s.Write(0, r.v["bytes"]))
				r.say("Host B's memory begins with %q; B has posted nothing and has no completion.",
					r.b()[:min(5, r.v["bytes"])])
				return err
			},
			questions: []question{
				{"How many packets will it be?", func(r *run) string {
					n := packets(r.v["bytes"], ib.MTU(r.v["mtu"]))
					return fmt.Sprintf("%d: %d bytes in pieces of %d. And one ACK for all, asked for by the last.", n,
						r.v["bytes"], ib.MTU(r.v["mtu"]).Bytes())
				}},
				{"How does B's program learn that the data is there?",
					says("From a WRITE it does not. Either A tells it with a SEND behind the WRITE (order is kept), or A uses WRITE with immediate, which consumes a receive, or B looks at the memory itself.")},
				{"Who acknowledges, if the program does nothing?",
					says("The adapter of B, here goroce's engine: the ACK says that the packets are placed, not that a program has seen them.")},
			},
			tries: []string{"mtu=1", "bytes=0"},
		},
		{
			name: "rkey", title: "A wrong key ends the connection", after: []string{"write"},
			text: `The rkey is the only right that a packet brings. If it is wrong, or the range is not covered, the responder refuses with a NAK, remote access error. That is no warning: both queue pairs are in the error state after it, and everything else that was posted is flushed.`,
			params: []param{
				{name: "flip", def: 8, min: 0, max: 31, help: "which bit of the rkey is wrong",
					refuse: func(v values, given bool) string {
						if given && v["beyond"] > 0 {
							return "with beyond the key is right: no bit of it is wrong"
						}
						return ""
					}},
				{name: "beyond", def: 0, min: 0, max: 1 << 20,
					help: "bytes beyond the end of the region instead, if not 0"},
			},
			play: func(r *run) error {
				bad := r.s.Write(0, 64)
				if n := r.v["beyond"]; n > 0 {
					bad.RemoteAddr += uint64(r.s.Hosts[1].MR.Len() - 64 + n)
				} else {
					bad.RKey ^= 1 << r.v["flip"]
				}
				defer func() {
					r.say("A's queue pair is in state %v now, B's in %v.", r.s.Hosts[0].QP.State(),
						r.s.Hosts[1].QP.State())
				}()
				return r.do(r.s.Write(0, 64), bad, r.s.Write(0, 64))
			},
			questions: []question{
				{"A posts three WRITEs at once, and the second has a bad key. What becomes of the third?",
					says("It is flushed: IBV_WC_WR_FLUSH_ERR (5) says that the request was not carried out because of an earlier one. The first error in the completion queue is the one to look at.")},
				{"Why does the responder not just drop the packet?",
					says("Then the requester would send it again and again until its retries run out. The NAK says that trying again does not help.")},
			},
			tries: []string{"beyond=1"},
		},
		{
			name: "keys", title: "Why keys have to be random", after: []string{"rkey"},
			text: `RoCE encrypts nothing and authenticates nobody: who can send packets into the network, knows the queue pair number and hits the PSN, needs only the rkey. Old adapters counted keys up, so that one key told the next. A guess that fails ends the connection, which makes guessing loud, but a peer can connect again.`,
			params: []param{{name: "guesses", def: 4, min: 1, max: 16,
				help: "rkeys that A tries, each on a connection of its own"}},
			play: func(r *run) error {
				right := r.s.Hosts[1].MR.RKey()
				for i := range r.v["guesses"] {
					w := r.s.Write(0, 8)
					w.RKey = right + ib.RKey(i) + 1 // a neighbour of a key that is known
					status, err := r.s.Try(w, i)
					if err != nil {
						return err
					}
					r.say("Key 0x%08x: %v.", uint32(w.RKey), status)
				}
				return nil
			},
			questions: []question{
				{"A key has 32 random bits. How many tries does it take to hit one, on average?", func(*run) string {
					return fmt.Sprintf("%.0f: half of them all. At 10,000 connections a second that is %.0f hours, and each of them ends with an error.",
						math.Exp2(31), math.Exp2(31)/1e4/3600)
				}},
				{"What else bounds the damage?",
					says("A key is good in one protection domain only: a connection of another one cannot use it. goroce gives each connection its own, unless it is told otherwise. And give away small regions, for a short time.")},
			},
			tries: []string{"guesses=8"},
		},
		{
			name: "window", title: "Memory windows: a right that can be taken back", after: []string{"rkey"},
			text: `A memory region is registered for long, and its key opens all of it. A memory window is a key for a part of one, made and taken back by a work request, without registering anything. Here B gives A a window of some bytes in the middle; A writes inside of it, and then up to its end or beyond.`,
			params: []param{{name: "size", def: 256, min: 8, max: 65536, help: "bytes of the window"}, {name: "over",
				def: 1, min: 0, max: 4096, help: "bytes by which the second WRITE goes beyond the end"}},
			play: func(r *run) error {
				b := r.s.Hosts[1]
				mw, err := b.PD.AllocMW(verbs.WindowType1)
				if err != nil {
					return err
				}
				key, err := mw.Bind(b.PD, b.MR, 4096, r.v["size"], verbs.RemoteWrite)
				if err != nil {
					return err
				}
				w := func(off int) verbs.SendWR {
					x := r.s.Write(0, 8)
					x.RKey, x.RemoteAddr = key, b.MR.Addr()+4096+uint64(off)
					r.say("A writes bytes %d to %d of the window.", off, off+7)
					return x
				}
				return r.do(w(0), w(r.v["size"]-8+r.v["over"]))
			},
			questions: []question{
				{"The region would allow the second WRITE. Does the window?", func(r *run) string {
					if r.v["over"] == 0 {
						return "Yes: it ends where the window does."
					}
					return "No: its key is one of its own, and covers its bytes only. (Linux rxe, up to 7.2, checks such a WRITE against the region only.)"
				}},
				{"How is a window taken back?",
					says("By binding it anew, which gives another key, by a local invalidate, or by the peer, with SEND with invalidate: when a storage server has written its answer it takes its own key away.")},
			},
			tries: []string{"over=0"},
		},
	}
}

// packets is how many packets a message of n bytes has.
func packets(n int, mtu ib.MTU) int { return max(1, (n+mtu.Bytes()-1)/mtu.Bytes()) }
