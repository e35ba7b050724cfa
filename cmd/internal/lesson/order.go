package lesson

import (
	"bytes"
	"fmt"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
)

// slow is a network on which a packet of 1 KiB takes 8 us, so that one can look in between.
func slow(values) stage.Config {
	return stage.Config{Sim: sim.Config{Up: sim.Pipe{BitsPerSecond: 1_088_000_000, Latency: 1000}}}
}

// notThere refuses a packet that a WRITE of so many packets does not have.
func notThere(lost, n string) func(values, bool) string {
	return func(v values, _ bool) string {
		if v[lost] >= v[n] {
			return fmt.Sprintf("there is no packet %d: the message has packets 0 to %d, and nothing would be lost",
				v[lost], v[n]-1)
		}
		return ""
	}
}

func order() []lesson {
	return []lesson{
		{
			name: "visible", title: "When a WRITE is visible", after: []string{"write", "signalled"},
			text: `A WRITE of several packets is not one event in the memory that it goes to. Its bytes appear packet by packet, and B's program, which looks at the memory, sees a part of it. When all is there, A does not know yet: the ACK is on its way. And when A has its completion, B's program has been told nothing. Here the network is slow, and B looks every microsecond.`,
			params: []param{
				{name: "packets", def: 6, min: 1, max: 32, help: "packets of 1 KiB that A writes"},
				{name: "lost", def: -1, min: -1, max: 31, help: "which of them is lost, from 0; -1 for none",
					refuse: notThere("lost", "packets")},
			},
			cfg: slow,
			play: func(r *run) error {
				n := r.v["packets"] * 1024
				if r.v["lost"] >= 0 {
					r.lose(0, ib.PSN(1000).Add(r.v["lost"]))
				}
				copy(r.s.Hosts[0].MR.Bytes(), bytes.Repeat([]byte{1}, n))
				seen := 0
				r.watch(1, 100_000, func() bool {
					if k := bytes.Count(r.b()[:n], []byte{1}); k > seen {
						seen = k
						r.say("At %.1f us B sees %d of %d bytes; the last byte is %v.", r.us(), k, n,
							map[bool]string{true: "there", false: "not there"}[r.b()[n-1] == 1])
					}
					return seen < n
				})
				return r.do(r.s.Write(0, n))
			},
			questions: []question{
				{"Can B's program know from the memory itself that the WRITE is complete?",
					says("Here yes, if it looks at the last byte: goroce places bytes in order. The specification promises less: order is sure between messages and not inside of one. So programs put a flag into a WRITE of its own behind the data, or send a message.")},
				{"Which comes first, the last byte in B's memory or A's completion?",
					says("The byte: the ACK leaves after it, and takes the way back. The completion tells A that B's adapter has the data.")},
			},
			tries: []string{"lost=2", "packets=1"},
		},
		{
			name: "order", title: "A message behind the data", after: []string{"visible", "rnr"},
			text: `A connection (RC) carries out requests in the order in which they were posted, whatever is lost on the way. So the usual way to hand over data is a WRITE, and a short SEND behind it, which says "done". When B has the completion of its receive, all of the WRITE is in its memory.`,
			params: []param{
				{name: "packets", def: 6, min: 1, max: 32, help: "packets of 1 KiB of the WRITE"},
				{name: "lost", def: 1, min: -1, max: 31, help: "which of them is lost, from 0; -1 for none",
					refuse: notThere("lost", "packets")},
			},
			cfg: slow,
			play: func(r *run) error {
				n := r.v["packets"] * 1024
				if r.v["lost"] >= 0 {
					r.lose(0, ib.PSN(1000).Add(r.v["lost"]))
				}
				copy(r.s.Hosts[0].MR.Bytes(), bytes.Repeat([]byte{1}, n))
				if err := r.s.Recv(1, 1, 64); err != nil {
					return err
				}
				r.watch(1, 100_000, func() bool {
					if r.s.Hosts[1].States[len(r.s.Hosts[1].States)-1].Completions == 0 {
						return true
					}
					r.say("At %.1f us B has the message, and %d of %d bytes of the WRITE.", r.us(),
						bytes.Count(r.b()[:n], []byte{1}), n)
					return false
				})
				return r.do(r.s.Write(0, n), r.s.Send(0, 16))
			},
			questions: []question{
				{"A packet of the WRITE is lost, and the SEND behind it arrives. What does B do with the SEND?",
					says("It drops it: its PSN is not the next one. B asks for the missing packet, and A sends that and all behind it again. The message waits for the data, by the PSN alone.")},
				{"Is the same true of two connections?", says(
					"No. Order is a matter of one queue pair: a SEND on another connection may overtake the WRITE.")},
			},
			tries: []string{"lost=-1", "lost=5"},
		},
		{
			name: "fence", title: "A fence: wait for what was read", after: []string{"order"},
			text: `Requests begin in order, but a READ is done only when its data has come back, and the requests behind it do not wait for that. If a WRITE takes its bytes from the memory that a READ before it is to fill, it sends what was there before. A fence on a request has it wait until all READs and atomics before it are done. Here A reads 8 bytes of B, and writes them to another place at B.`,
			params: []param{{name: "fence", def: 0, min: 0, max: 1,
				help: "1: the WRITE has the fence (IBV_SEND_FENCE)"}},
			warm: true, play: func(r *run) error {
				copy(r.b(), "new data")
				copy(r.s.Hosts[0].MR.Bytes(), "old data")
				read, write := r.word(verbs.WRRead, 0, 0), r.word(verbs.WRWrite, 0, 64)
				if r.v["fence"] == 1 {
					write.Flags |= verbs.SendFence
				}
				err := r.do(read, write)
				r.say("B's memory at the other place: %q.", r.b()[64:72])
				return err
			},
			questions: []question{
				{"B's memory begins with \"new data\", A's buffer with \"old data\". What will A have written?",
					func(r *run) string {
						return fmt.Sprintf("%q. With the fence it is the new data, and the two requests take two round trips instead of one.", r.b()[64:72])
					}},
				{"Why does the queue pair not wait by itself?",
					says("Most READs have nothing to do with what follows them, and waiting costs a round trip each time. Responses and requests travel in different directions, so both can be on their way.")},
			},
			tries: []string{"fence=1"},
		},
	}
}
