package lesson

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
)

// first is the PSN of A's first request after warm.
const first = ib.PSN(1003)

// lose has a host lose a packet it sends, the first time.
func lose(s *stage.Stage, host int, psn ib.PSN) {
	s.Hosts[host].Faults.Add(fault.Rule{Action: fault.Drop, PSN: psn, HasPSN: true, Iteration: 1})
}

func lessons() []lesson {
	return []lesson{
		{
			name: "rnr", title: "A SEND needs a receive on the other side",
			text: `A SEND carries a message but no address: the receiver decides where it goes, by a receive request that it has posted before. If none is posted, the receiver does not buffer the message, as TCP would. It drops it and sends an RNR NAK: receiver not ready, try again after so long. Here host B posts its receive late.`,
			params: []param{
				{"late", 2000, 0, 1_000_000, "microseconds after which B posts its receive"},
				{"timer", 12, 0, 31, "min_rnr_timer of B: how long A is to wait (12 is 0.64 ms, 0 is 655 ms)"},
			},
			cfg: func(v values) stage.Config {
				return stage.Config{Attr: func(_ int, a *verbs.ConnAttr) { a.MinRNRTimer = ib.RNRCode(v["timer"]) }}
			},
			play: func(r *run) error {
				if r.v["late"] == 0 {
					if err := r.s.Recv(1, 1, 8192); err != nil {
						return err
					}
				} else {
					r.s.Net.At(int64(r.v["late"])*1000, func() { _ = r.s.Recv(1, 1, 8192) })
				}
				return r.do(r.s.Send(0, 64))
			},
			questions: []question{
				{"How long did the SEND take, and how long would it have taken with the receive posted in time?", func(v values) string {
					return "Posted in time it takes one round trip, 4 us: see with late=0. The waits are those that the receiver asks for, not those that the network needs."
				}},
				{"librdmacm leaves min_rnr_timer at 0. What does that do to this run?", func(values) string {
					return "Timer code 0 is not the shortest wait but the longest, 655.36 ms. See with timer=0: one missing receive costs most of a second."
				}},
			},
			next: "timer=0",
		},
		{
			name: "write", title: "A WRITE needs none",
			text:   `An RDMA WRITE names the memory it goes to: an address and a key (rkey) that the other side has given away before. The other side's program does nothing, and learns nothing of it: no receive is consumed, no completion appears there. Only the first packet of a message carries address and key (RETH); the others go behind it.`,
			params: []param{{"bytes", 5000, 0, 100_000, "length of the WRITE"}, {"mtu", 3, 1, 5, "path MTU: 1 is 256, 2 is 512, 3 is 1024, 4 is 2048, 5 is 4096 bytes"}},
			cfg:    func(v values) stage.Config { return stage.Config{MTU: ib.MTU(v["mtu"])} },
			play: func(r *run) error {
				copy(r.s.Hosts[0].MR.Bytes(), "hello")
				err := r.do(r.s.Write(0, r.v["bytes"]))
				r.say("Host B's memory begins with %q; B has posted nothing and has no completion.", r.s.Hosts[1].MR.Bytes()[:min(5, r.v["bytes"])])
				return err
			},
			questions: []question{
				{"How does B's program learn that the data is there?", func(values) string {
					return "From a WRITE it does not. Either A tells it with a SEND behind the WRITE (order is kept), or A uses WRITE with immediate, which consumes a receive, or B looks at the memory itself."
				}},
				{"Who acknowledges, if the program does nothing?", func(values) string {
					return "The adapter of B, here goroce's engine: the ACK says that the packets are placed, not that a program has seen them."
				}},
			},
			next: "mtu=1",
		},
		{
			name: "signalled", title: "Completions that nobody asked for are not made",
			text:   `Every work request ends; a completion is made only for those that are signalled (IBV_SEND_SIGNALED), and for failures. Since a queue pair carries out its requests in order, the completion of one tells that all before it are done. So programs signal every so many, and have less to poll.`,
			params: []param{{"writes", 8, 1, 64, "WRITEs that A posts"}, {"every", 4, 1, 64, "of which every so many is signalled"}},
			play: func(r *run) error {
				h := r.s.Hosts[0]
				want := 0
				for i := range r.v["writes"] {
					w := r.s.Write(0, 64)
					w.ID = uint64(i + 1)
					if (i+1)%r.v["every"] == 0 {
						w.Flags = verbs.SendSignaled
						want++
					}
					if err := h.QP.PostSend(&w); err != nil {
						return err
					}
				}
				wcs, err := r.s.Await(0, want)
				for _, wc := range wcs {
					r.say("At %.1f us host A has a completion for WRITE %d: %v.", float64(r.s.Net.Now())/1000, wc.ID, wc.Status)
				}
				r.say("%d WRITEs, %d completions.", r.v["writes"], want)
				return err
			},
			questions: []question{
				{"Does the number of signalled requests change the packets?", func(values) string {
					return "No: compare with every=1. Whether a completion is made is between the program and its own adapter. (Solicited events are another thing: a bit in the packet, for the receiver's side.)"
				}},
				{"What happens if a program signals none at all?", func(values) string {
					return "Its send queue fills up, and PostSend fails: slots are given back when a completion says that they are free."
				}},
			},
			next: "every=1",
		},
		{
			name: "rkey", title: "A wrong key ends the connection",
			text:   `The rkey is the only right that a packet brings. If it is wrong, or the range is not covered, the responder refuses with a NAK, remote access error. That is no warning: both queue pairs are in the error state after it, and everything else that was posted is flushed.`,
			params: []param{{"flip", 8, 0, 31, "which bit of the rkey is wrong"}, {"beyond", 0, 0, 1 << 20, "bytes beyond the end of the region instead, if not 0"}},
			play: func(r *run) error {
				bad := r.s.Write(0, 64)
				if n := r.v["beyond"]; n > 0 {
					bad.RemoteAddr += uint64(r.s.Hosts[1].MR.Len() - 64 + n)
				} else {
					bad.RKey ^= 1 << r.v["flip"]
				}
				return r.do(r.s.Write(0, 64), bad, r.s.Write(0, 64))
			},
			questions: []question{
				{"The third WRITE had the right key. What became of it?", func(values) string {
					return "It was flushed: IBV_WC_WR_FLUSH_ERR (5) says that the request was not carried out because of an earlier one. The first error in the completion queue is the one to look at."
				}},
				{"Why does the responder not just drop the packet?", func(values) string {
					return "A reliable connection promises order and completeness. A request that cannot be carried out breaks that promise, so that the connection ends, visibly on both sides."
				}},
			},
			next: "beyond=1",
		},
		{
			name: "loss", title: "A lost packet, and going back",
			text:   `The responder takes packets in the order of their PSNs only. When one is missing, it drops everything behind it and sends one NAK with the PSN it misses. The requester goes back to that PSN and sends all from there again: go-back-N. That is simple, and expensive: one lost packet costs all that was on its way.`,
			params: []param{{"packets", 8, 1, 64, "length of the WRITE in packets"}, {"lost", 3, 0, 63, "which of them is lost, from 0"}},
			play: func(r *run) error {
				if err := r.warm(); err != nil {
					return err
				}
				lose(r.s, 0, first.Add(r.v["lost"]))
				return r.do(r.s.Write(0, r.v["packets"]*1024))
			},
			questions: []question{
				{"How many packets were sent, and how many had to be?", func(v values) string {
					if v["lost"] >= v["packets"] {
						return "None was lost: the packet to lose is not part of the message."
					}
					if v["lost"] == v["packets"]-1 {
						return "One more than had to be. But it took long: nothing came behind the lost packet that could have shown the gap, and a timer had to tell."
					}
					return fmt.Sprintf("%d had to be, and %d were sent again because of one.", v["packets"], v["packets"]-v["lost"])
				}},
				{"What if the last packet is lost?", func(values) string {
					return "Nothing behind it shows the gap, so no NAK comes: a timer has to run out. The specification has the ACK timeout, 67 ms by default; goroce sends a probe after a millisecond. See with lost=7."
				}},
			},
			next: "lost=7",
		},
		{
			name: "ack", title: "A lost acknowledgement, and why nothing is done twice",
			text:   `If the ACK is lost, the requester cannot know whether the request was. It sends the request again, and the responder sees from the PSN that it has carried it out: a duplicate is acknowledged, and not done again. From A the two losses look the same, and roce explain says so. Look at the same run from host B with view=1.`,
			params: []param{{"view", 0, 0, 1, "where the capture is taken: 0 on host A, 1 on host B"}, {"request", 0, 0, 1, "1: the request is lost, and not the ACK"}},
			view:   func(v values) stage.View { return stage.View(v["view"]) },
			play: func(r *run) error {
				if err := r.warm(); err != nil {
					return err
				}
				lose(r.s, 1-r.v["request"], first)
				return r.do(r.s.Write(0, 64))
			},
			questions: []question{
				{"Compare request=0 and request=1 from host A. What differs?", func(values) string {
					return "Nothing at all. To the requester both are silence, then an answer."
				}},
				{"And from host B?", func(values) string {
					return "With the ACK lost, B sees the request twice and answers twice. With the request lost B sees it once: the loss has happened before its eyes begin."
				}},
			},
			next: "view=1",
		},
		{
			name: "read", title: "A READ and its responses",
			text:   `A READ is one small request, and as many responses as the data has packets; they take their PSNs from the requester, one each. There is no ACK for them. If one is missing, the requester asks again, from there on: a gap in the responses is an implied NAK.`,
			params: []param{{"bytes", 8192, 0, 65536, "length of the READ"}, {"lost", 3, -1, 63, "which response is lost, from 0; -1 for none"}},
			play: func(r *run) error {
				if err := r.warm(); err != nil {
					return err
				}
				if r.v["lost"] >= 0 {
					lose(r.s, 1, first.Add(r.v["lost"]))
				}
				return r.do(r.s.Read(0, r.v["bytes"]))
			},
			questions: []question{
				{"How many PSNs does the READ take, and what is the PSN of the next request?", func(v values) string {
					n := max(1, (v["bytes"]+1023)/1024)
					return fmt.Sprintf("%d, one for each response at a path MTU of 1024; the next request has PSN %d. Both sides have to count the same, so both need the same path MTU.", n, first.Add(n))
				}},
				{"Who bears the load of a READ?", func(values) string {
					return "The responder sends the data, as fast as it can, and the requester has to take it: many READs at a time are a burst towards oneself. The READ depth (max_rd_atomic) bounds it."
				}},
			},
			next: "lost=-1",
		},
		{
			name: "atomic", title: "An atomic that is repeated is done once",
			text:   `FETCH_ADD changes memory and answers with the old value. If that answer is lost, the requester must ask again, and doing the addition again would be wrong. So a responder remembers the results of its last atomics, and answers a repeated one from memory.`,
			params: []param{{"add", 5, 0, 1000, "what is added"}, {"lost", 1, 0, 5, "how often the answer is lost"}},
			play: func(r *run) error {
				if err := r.warm(); err != nil {
					return err
				}
				if n := r.v["lost"]; n > 0 {
					r.s.Hosts[1].Faults.Add(fault.Rule{Action: fault.Drop, Opcode: ib.RCAtomicAck, HasOpcode: true, Times: n})
				}
				binary.NativeEndian.PutUint64(r.s.Hosts[1].MR.Bytes(), 37)
				err := r.do(r.s.FetchAdd(0, uint64(r.v["add"])))
				r.say("Host B's memory held 37 and holds %d now.", binary.NativeEndian.Uint64(r.s.Hosts[1].MR.Bytes()))
				return err
			},
			questions: []question{
				{"How does B know that the second FETCH_ADD is the first one again?", func(values) string {
					return "By its PSN, which is behind what B expects. B looks it up among the answers that it keeps; how many it keeps is the depth that the two sides agree on (max_dest_rd_atomic)."
				}},
				{"Could B not read the memory again for the answer, as it does for a READ?", func(values) string {
					return "No: another atomic, or a program, may have changed it since. A repeated READ does answer with what is there now."
				}},
			},
			next: "lost=3",
		},
		{
			name: "wrap", title: "PSNs wrap",
			text:   `A PSN has 24 bits. After 16777215 comes 0, in the middle of a message if it so happens. So "later" is not "larger": of two PSNs one is later if it lies in the half of the circle ahead. At 100 Gb/s with 4096 bytes a packet the circle is gone round every 5.5 seconds.`,
			params: []param{{"psn", 0xFFFFFD, 1, ib.PSNMask, "the first PSN of A"}, {"packets", 6, 1, 32, "packets of the WRITE"}, {"lost", 1, 0, 1, "1: the packet with PSN 0 is lost the first time"}},
			cfg:    func(v values) stage.Config { return stage.Config{PSN: [2]ib.PSN{ib.PSN(v["psn"])}} },
			play: func(r *run) error {
				if r.v["lost"] == 1 {
					lose(r.s, 0, 0)
				}
				return r.do(r.s.Write(0, r.v["packets"]*1024))
			},
			questions: []question{
				{"Is PSN 2 before or after PSN 16777213?", func(values) string {
					return "After it, by 5. It is also before it, by 16777211; the shorter way counts, and a requester never has more than half of the circle on its way."
				}},
				{"Why do connections begin with a random PSN?", func(values) string {
					return "So that late packets of an earlier connection with the same queue pair numbers, and of somebody who guesses, do not fit. Both ends tell each other theirs when they connect."
				}},
			},
			next: "lost=0",
		},
		{
			name: "congestion", title: "Marks, CNPs and the rate: DCQCN at a bottleneck",
			text:   `Host A can send at 40 Gb/s, but the last link to host B is slower: as in an incast, a queue grows in the switch. Beyond a length the switch marks packets (CE) instead of dropping them. B answers marks with congestion notifications, CNPs, and A cuts its rate, and raises it again when no more come.`,
			params: []param{{"rate", 10, 1, 40, "Gb/s of the bottleneck"}, {"kib", 512, 64, 512, "KiB that A writes"}, {"control", 1, 0, 1, "0: A does not slow down"}},
			cfg: func(v values) stage.Config {
				c := stage.Config{MTU: ib.MTU4096}
				c.Sim.Up = sim.Pipe{BitsPerSecond: 40e9, Latency: 1000}
				c.Sim.Down = sim.Pipe{BitsPerSecond: int64(v["rate"]) * 1e9, Latency: 1000, QueueBytes: 1 << 20, Mark: sim.RED{KminBytes: 20_000, KmaxBytes: 100_000, Pmax: 0.2}.Mark}
				for i := range c.Tuning {
					c.Tuning[i] = transport.Tuning{LossProbe: -1}
					if v["control"] == 1 {
						c.Tuning[i].Congestion = cc.Config{Algorithm: cc.DCQCNPaper, LineRate: 40 * cc.Gbps, Capped: true, Burst: -1}
					}
				}
				c.Attr = func(_ int, a *verbs.ConnAttr) { a.TrafficClass = 2 } // ECT(0): may be marked
				return c
			},
			view: func(values) stage.View { return stage.At1 },
			play: func(r *run) error {
				err := r.do(r.s.Write(0, r.v["kib"]<<10))
				if st, ok := r.s.Hosts[0].QP.Congestion(); ok {
					r.say("A has cut its rate %d times; it sends at %.1f Gb/s now, and alpha is %.2f.", st.Cuts, float64(st.Current)/float64(cc.Gbps), st.Alpha)
				}
				st := r.s.Net.Stats()
				r.say("The switch marked %d packets and dropped %d.", st.Marked, st.Overflowed)
				return err
			},
			questions: []question{
				{"What would TCP have done without ECN?", func(values) string {
					return "Filled the queue until it dropped, and slowed down then. For RDMA a drop is dearer, since all behind it goes again."
				}},
				{"Why are CNPs sent at most every 50 us?", func(values) string {
					return "One cut is for all marks of that time: a sender that cut for each of them would stop."
				}},
			},
			next: "control=0",
		},
		{
			name: "window", title: "Memory windows: a right that can be taken back",
			text:   `A memory region is registered for long, and its key opens all of it. A memory window is a key for a part of one, made and taken back by a work request, without registering anything. Here B gives A a window of some bytes in the middle; A writes inside of it, and then up to its end or beyond.`,
			params: []param{{"size", 256, 8, 65536, "bytes of the window"}, {"over", 1, 0, 4096, "bytes by which the second WRITE goes beyond the end"}},
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
				w := func(off, n int) verbs.SendWR {
					x := r.s.Write(0, n)
					x.RKey, x.RemoteAddr = key, b.MR.Addr()+4096+uint64(off)
					return x
				}
				return r.do(w(0, 8), w(r.v["size"]-8+r.v["over"], 8))
			},
			questions: []question{
				{"The region would have allowed the second WRITE. Who refused it?", func(values) string {
					return "The window: its key is one of its own, and covers its bytes only. (Linux rxe, up to 7.2, checks such a WRITE against the region only.)"
				}},
				{"How is a window taken back?", func(values) string {
					return "By binding it anew, which gives another key, by a local invalidate, or by the peer, with SEND with invalidate: when a storage server has written its answer it takes its own key away."
				}},
			},
			next: "over=0",
		},
		{
			name: "keys", title: "Why keys have to be random",
			text:   `RoCE encrypts nothing and authenticates nobody: who can send packets into the network, knows the queue pair number and hits the PSN, needs only the rkey. Old adapters counted keys up, so that one key told the next. A guess that fails ends the connection, which makes guessing loud, but a peer can connect again.`,
			params: []param{{"guesses", 4, 1, 16, "rkeys that A tries, each on a connection of its own"}, {"bits", 32, 8, 32, "bits of a key that are random, for the answer"}},
			cfg:    func(values) stage.Config { return stage.Config{} },
			play: func(r *run) error {
				right := r.s.Hosts[1].MR.RKey()
				for i := range r.v["guesses"] {
					w := r.s.Write(0, 8)
					w.RKey = right + ib.RKey(i) + 1 // a neighbour of a key that is known
					wcs, err := r.s.Try(w, i)
					if err != nil {
						return err
					}
					r.say("Key 0x%08x: %v.", uint32(w.RKey), wcs)
				}
				return nil
			},
			questions: []question{
				{"How many tries does it take to hit one key, on average?", func(v values) string {
					return fmt.Sprintf("%.0f with %d random bits: half of them all. At 10,000 connections a second that is %.3g hours.", math.Exp2(float64(v["bits"]-1)), v["bits"], math.Exp2(float64(v["bits"]-1))/1e4/3600)
				}},
				{"What else bounds the damage?", func(values) string {
					return "A key is good in one protection domain only: a connection of another one cannot use it. goroce gives each connection its own, unless it is told otherwise. And give away small regions, for a short time."
				}},
			},
			next: "bits=8",
		},
	}
}
