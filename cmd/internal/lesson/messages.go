package lesson

import (
	"fmt"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
)

const mtuHelp = "1 is 256, 2 is 512, 3 is 1024, 4 is 2048, 5 is 4096 bytes"

func messages() []lesson {
	return []lesson{
		{
			name: "rnr", title: "A SEND needs a receive on the other side", after: []string{"write"},
			text: `A SEND carries a message but no address: the receiver decides where it goes, by a receive that it has posted to its receive queue before. If none is posted, the receiver does not buffer the message, as TCP would. It drops it and sends an RNR NAK: receiver not ready, try again after so long. Here host B posts its receive late.`,
			params: []param{
				{name: "late", def: 2000, min: 0, max: 1_000_000, help: "microseconds after which B posts its receive"},
				{name: "timer", def: 12, min: 0, max: 31,
					help: "min_rnr_timer of B: how long A is to wait (12 is 0.64 ms, 0 is 655 ms)",
					refuse: func(v values, given bool) string {
						if given && v["late"] <= 1 {
							return "B's receive is posted when the SEND comes: nobody is told to wait"
						}
						return ""
					}},
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
					r.s.Net.At(int64(r.v["late"])*1000, func() { r.recv(1) })
				}
				return r.do(r.s.Send(0, 64))
			},
			questions: []question{
				{"A round trip takes 4 us. How long will the SEND take?", func(r *run) string {
					return fmt.Sprintf("%.1f us, and %d times B said that it was not ready. The waits are those that the receiver asks for, not those that the network needs.",
						float64(r.tookNs)/1000, r.s.Hosts[0].Device.Counters().RcvdRNRErr)
				}},
				{"librdmacm leaves min_rnr_timer at 0. What does that do to this run?",
					says("Timer code 0 is not the shortest wait but the longest, 655.36 ms. See with timer=0: one missing receive costs most of a second.")},
			},
			tries: []string{"timer=0", "late=0"},
		},
		{
			name: "signalled", title: "Completions that nobody asked for are not made", after: []string{"write"},
			text: `Every work request ends; a completion is made only for those that are signalled (IBV_SEND_SIGNALED), and for failures. Since a queue pair carries out its requests in order, the completion of one tells that all before it are done. So programs signal every so many, and have less to poll.`,
			params: []param{{
				name: "writes", def: 8, min: 1, max: 64, help: "WRITEs that A posts",
			}, {name: "every", def: 4, min: 1, max: 64, help: "of which every so many is signalled",
				refuse: func(v values, _ bool) string {
					if v["every"] > v["writes"] {
						return fmt.Sprintf("there are %d WRITEs: none would be signalled, and A would wait for ever",
							v["writes"])
					}
					return ""
				}}},
			play: func(r *run) error {
				want := 0
				for i := range r.v["writes"] {
					w := r.s.Write(0, 64)
					w.ID = uint64(i + 1)
					if (i+1)%r.v["every"] == 0 {
						w.Flags = verbs.SendSignaled
						want++
					}
					if err := r.s.Post(0, &w); err != nil {
						return err
					}
				}
				for n := want; n > 0; {
					wcs, err := r.s.Await(0, 1)
					if err != nil {
						return err
					}
					for _, wc := range wcs {
						r.say("At %.1f us host A has a completion for WRITE %d: %v.", r.us(), wc.ID, wc.Status)
					}
					n -= len(wcs)
				}
				r.say("%d WRITEs, %d completions.", r.v["writes"], want)
				return nil
			},
			questions: []question{
				{"Does the number of signalled requests change the packets?",
					says("No: compare with every=1. Whether a completion is made is between the program and its own adapter. (Solicited events are another thing: a bit in the packet, for the receiver's side.)")},
				{"What happens if a program signals none at all?",
					says("Its send queue fills up, and PostSend fails: slots are given back when a completion says that they are free.")},
			},
			tries: []string{"every=1", "every=8"},
		},
		{
			name: "credits", title: "Credits: how many receives are left", after: []string{"rnr"},
			text: `Each ACK has room for a number: how many receives the responder has posted (end-to-end credits). A requester that reads it stops when none is left, and sends one message more to ask; so an RNR NAK costs one message and not all that are on their way. Few adapters say the number, and none has to be believed: without it, a requester sends, and is refused.`,
			params: []param{
				{name: "sends", def: 6, min: 1, max: 32, help: "SENDs that A posts at once"},
				{name: "recvs", def: 2, min: 1, max: 32, help: "receives that B has posted by then"},
				{name: "credits", def: 1, min: 0, max: 1, help: "0: B does not say how many it has",
					refuse: func(v values, given bool) string {
						if given && v["credits"] == 0 && v["recvs"] > v["sends"] {
							return "B has receives enough for all: it makes no difference what it says"
						}
						return ""
					}},
				{name: "late", def: 1000, min: 100, max: 100_000,
					help: "microseconds after which B posts more", refuse: func(v values, given bool) string {
						if given && v["recvs"] >= v["sends"] {
							return "B has receives enough for all: it posts no more"
						}
						return ""
					}},
			},
			cfg: func(v values) stage.Config {
				on := transport.Tuning{EndToEndCredits: v["credits"] == 1}
				return stage.Config{Tuning: [2]transport.Tuning{on, on}}
			},
			play: func(r *run) error {
				if err := r.s.Recv(1, r.v["recvs"], 8192); err != nil {
					return err
				}
				if err := r.warm(); err != nil { // their ACKs say how many receives there are
					return err
				}
				if more := r.v["sends"] - r.v["recvs"]; more > 0 {
					r.s.Net.At(r.s.Net.Now()+int64(r.v["late"])*1000, func() { r.recv(more) })
				}
				sends := make([]verbs.SendWR, r.v["sends"])
				for i := range sends {
					sends[i] = r.s.Send(0, 64)
				}
				err := r.do(sends...)
				r.say("A sent %d packets twice, and was refused %d times.",
					r.s.Hosts[0].Device.Counters().RetransmittedPkts, r.s.Hosts[0].Device.Counters().RcvdRNRErr)
				return err
			},
			questions: []question{
				{"B has fewer receives than A has messages. How many messages will go to waste?", func(r *run) string {
					return fmt.Sprintf("%d were sent again here. Without credits all that were on their way behind the last receive go again, each time: compare with the other value of credits.",
						r.s.Hosts[0].Device.Counters().RetransmittedPkts)
				}},
				{"Why does A send one message though it has no credit?",
					says("The next credit comes with an ACK, and an ACK comes for a message. The one that asks may be refused; then A waits as long as B's RNR timer says.")},
			},
			tries: []string{"credits=0", "recvs=6"},
		},
		{
			name: "mtu", title: "The path MTU: both ends, and the way between", after: []string{"write"},
			text: `A message is cut into packets of the path MTU; the last may be shorter. Both ends must have the same, since the responder checks the length of each packet. And the network must carry it, with 58 to 78 bytes of headers around. Nothing on the way tells if it does not: packets that are too long vanish, and short ones pass.`,
			params: []param{
				{name: "a", def: 5, min: 1, max: 5, help: "path MTU of A: " + mtuHelp},
				{name: "b", def: 5, min: 1, max: 5, help: "path MTU of B", refuse: func(v values, given bool) string {
					if given && v["path"] < v["a"] {
						return "A's long packets do not reach B: what B expects changes nothing"
					}
					return ""
				}},
				{name: "path", def: 3, min: 1, max: 5, help: "the longest payload that the network carries"},
			},
			cfg: func(v values) stage.Config {
				return stage.Config{Attr: func(host int, a *verbs.ConnAttr) {
					a.MTU, a.RetryCnt = ib.MTU([]int{v["a"], v["b"]}[host]), 2
				}}
			},
			play: func(r *run) error {
				const bytes = 5000
				mtu, most := ib.MTU(r.v["a"]).Bytes(), ib.MTU(r.v["path"]).Bytes()
				n, long := packets(bytes, ib.MTU(r.v["a"])), 0
				first := ib.PSN(1001)
				for i := range n {
					if min(mtu, bytes-i*mtu) > most {
						long++
						r.s.Hosts[0].Faults.Add(fault.Rule{Action: fault.Drop, PSN: first.Add(i), HasPSN: true})
					}
				}
				r.say("The network carries %d bytes a packet. Of the long WRITE %d of %d packets are longer.",
					most, long, n)
				if err := r.do(r.s.Write(0, 64)); err != nil {
					return err
				}
				return r.do(r.s.Write(0, bytes))
			},
			questions: []question{
				{"A writes 64 bytes, and then 5000. Which of the two will succeed?", func(r *run) string {
					if r.wcs[0].Status == verbs.WCSuccess {
						return "Both: all three numbers fit."
					}
					if r.v["a"] != r.v["b"] && r.v["path"] >= r.v["a"] {
						return "The short one. B refused the long one: a packet had not the length that B's path MTU wants."
					}
					return "The short one. The long one died of its retries: it looks as if the peer were gone, but only for long messages. That pattern is the sign."
				}},
				{"How do you find the path MTU of a network?",
					says("By trying, with packets that must not be fragmented: roce doctor does. The number that both interfaces have is a promise that the switches may not keep.")},
			},
			tries: []string{"path=5", "a=3 b=3", "b=4 path=5"},
		},
		{
			name: "ud", title: "Datagrams, and the key that they need", after: []string{"rnr", "mtu"},
			text: `An unreliable datagram (UD) queue pair has no connection. Each SEND says where it goes: an address handle and a queue pair number. A message is one packet, at most the MTU. It also carries a Q_Key; if that is not the receiver's, the packet is dropped without a word, as is one that finds no receive or too small a one. The receiver gets 40 bytes more than were sent: room for the header (GRH), from which it knows the sender.`,
			params: []param{
				{name: "bytes", def: 1000, min: 0, max: 4096, help: "length of the SEND"},
				{name: "room", def: 1040, min: 40, max: 8192, help: "bytes of B's receive"},
				{name: "qkey", def: 0, min: 0, max: 0xFFFF, help: "by how much A's Q_Key is wrong"},
			},
			cfg: func(values) stage.Config { return stage.Config{Type: ib.UD} },
			play: func(r *run) error {
				a, b := r.s.Hosts[0], r.s.Hosts[1]
				if err := r.s.Recv(1, 1, r.v["room"]); err != nil {
					return err
				}
				ah, err := a.PD.CreateAHTo(ib.GIDFromAddr(b.Addr))
				if err != nil {
					return err
				}
				w := r.s.Send(0, r.v["bytes"])
				w.AH, w.RemoteQPN, w.RemoteQKey = ah, b.QP.Num(), stage.QKey+ib.QKey(r.v["qkey"])
				if err := r.do(w); err != nil {
					return err
				}
				r.s.Net.RunFor(time.Millisecond)
				var wc [1]verbs.WC
				if n, err := b.CQ.Poll(wc[:]); err != nil {
					return err
				} else if n == 0 {
					c := b.Device.Counters()
					r.say("Host B has no completion. It dropped %d packets for their Q_Key, and %d for want of a receive that fits.",
						c.DropQKey, c.DropNoRecv)
					return nil
				}
				r.say("Host B has a completion: %d bytes of %d that there is room for, 40 of them for the GRH, from queue pair %v.",
					wc[0].ByteLen, r.v["room"], wc[0].SrcQP)
				return nil
			},
			questions: []question{
				{"A has a success. Does that mean that B has the message?", says(
					"No. It means that the packet has left. With qkey=1 or room=1039 A sees the same, and B nothing.")},
				{"What is the Q_Key for, if it is in each packet in the clear?",
					says("It keeps apart programs that do not mean each other, not attackers: a queue pair number that was used again, a group that somebody else has joined. RDMA-CM tells its peers the key; one with the highest bit set only the system may use.")},
			},
			tries: []string{"qkey=1", "room=1039", "bytes=4096 room=4136"},
		},
	}
}
