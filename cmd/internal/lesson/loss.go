package lesson

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
)

// again is how many packets a host has sent again.
func (r *run) again() int { return int(r.s.Hosts[0].Device.Counters().RetransmittedPkts) }

func loss() []lesson {
	return []lesson{
		{
			name: "loss", title: "A lost packet: go back N", after: []string{"order"},
			text: `The packets of a connection are numbered (PSN). If one is missing, the responder drops all that come behind it, and sends a sequence NAK with the number it expects. The requester goes back to it and sends everything from there on again. Here a packet of a WRITE is lost.`,
			params: []param{{
				name: "packets", def: 8, min: 1, max: 64, help: "packets of 1024 bytes that A writes",
			}, {name: "lost", def: 2, min: 0, max: 63, help: "which of them is lost, from 0",
				refuse: notThere("lost", "packets")}},
			warm: true, play: func(r *run) error {
				r.lose(0, first.Add(r.v["lost"]))
				return r.do(r.s.Write(0, r.v["packets"]*1024))
			},
			questions: []question{
				{"How many packets will be sent again because of one?", func(r *run) string {
					if r.s.Hosts[0].Device.Counters().RcvdSeqErr == 0 {
						return fmt.Sprintf("%d. But it took %.0f us: nothing came behind the lost packet that could have shown the gap, and a timer had to tell.",
							r.again(), float64(r.tookNs)/1000)
					}
					return fmt.Sprintf("%d: the lost one and all behind it, which B had dropped.", r.again())
				}},
				{"What if the last packet is lost?", func(r *run) string {
					return fmt.Sprintf("Nothing behind it shows the gap, so no NAK comes: a timer has to run out. The specification has the ACK timeout, 67 ms by default; goroce sends a probe after a millisecond. See with lost=%d.", r.v["packets"]-1)
				}},
			},
			tries: []string{"lost=7", "lost=0"},
		},
		{
			name: "overtaken", title: "Overtaken, and not lost", after: []string{"loss"},
			text: `Packets of a connection may take different ways, and one overtakes another. The responder cannot know that: it sees a gap, asks, and the requester goes back, for nothing. From A that is a loss like any other. On B one sees the packet come after all, a little late, and then once more. Look from host A with view=0.`,
			params: []param{
				{name: "packets", def: 8, min: 3, max: 64, help: "packets of 1024 bytes that A writes"},
				{name: "late", def: 2, min: 0, max: 62, help: "which of them is late, from 0; not the last",
					refuse: func(v values, _ bool) string {
						if v["late"] > v["packets"]-2 {
							return fmt.Sprintf("packets 0 to %d have one behind them that can overtake", v["packets"]-2)
						}
						return ""
					}},
				{name: "view", def: 1, min: 0, max: 1, help: "where the capture is taken: 0 on host A, 1 on host B"},
			},
			view: func(v values) stage.View { return stage.View(v["view"]) },
			warm: true, play: func(r *run) error {
				r.delay(first.Add(r.v["late"]))
				err := r.do(r.s.Write(0, r.v["packets"]*1024))
				r.s.Net.RunFor(time.Millisecond)
				r.say("A has sent %d packets again, and B counted %d duplicates.", r.again(),
					r.s.Hosts[1].Device.Counters().DuplicateRequest)
				return err
			},
			questions: []question{
				{"Nothing is lost. How many packets will A send again?", func(r *run) string {
					return fmt.Sprintf("%d: B asked for the late one, and had dropped what came before its turn. All of them for nothing.", r.again())
				}},
				{"How do networks avoid it?",
					says("A switch chooses the way by addresses and ports, so that all packets of a connection take one. RoCE v2 has the UDP source port for that. Networks that spread packets over many ways need adapters that keep what comes early: selective repeat.")},
			},
			tries: []string{"view=0", "late=6"},
		},
		{
			name: "selective", title: "Selective repeat: only what is missing", after: []string{"overtaken"},
			selective: true, text: `Going back N throws away what had arrived. If both ends can, the responder keeps packets that come before their turn, its NAK says which it has, and the requester sends again only what is missing. Newer adapters do that between themselves; goroce devices do it, too, except in the other lessons. Whether the peer can, a requester finds out from the first loss, so the first one goes back. Here each of two WRITEs loses a packet.`,
			params: []param{
				{name: "packets", def: 8, min: 2, max: 64, help: "packets of 1024 bytes of each WRITE"},
				{name: "lost", def: 2, min: 0, max: 62, help: "which of them is lost, from 0; not the last",
					refuse: func(v values, _ bool) string {
						if v["lost"] > v["packets"]-2 {
							return fmt.Sprintf("packets 0 to %d have one behind them that shows the gap",
								v["packets"]-2)
						}
						return ""
					}},
				{name: "keep", def: 1, min: 0, max: 1, help: "0: B keeps nothing that comes before its turn"},
			},
			cfg: func(v values) stage.Config {
				return stage.Config{Tuning: [2]transport.Tuning{1: {GoBackN: v["keep"] == 0}}}
			},
			warm: true, play: func(r *run) error {
				before := 0
				for i := range 2 {
					r.lose(0, first.Add(i*r.v["packets"]+r.v["lost"]))
					if err := r.do(r.s.Write(0, r.v["packets"]*1024)); err != nil {
						return err
					}
					r.say("For WRITE %d A has sent %d packets again; %d packets were lost so far.", i+1,
						r.again()-before, i+1)
					before = r.again()
				}
				return nil
			},
			questions: []question{
				{"How many packets will A send again for the second loss?", func(r *run) string {
					n := r.s.Hosts[0].Device.Counters().SelectiveRepeats
					if n == 0 {
						return "As many as for the first: B keeps nothing, so all behind the gap has to come again."
					}
					return fmt.Sprintf(
						"%d: B had kept the others, and has them in their turn when the missing one is there.", n)
				}},
				{"Why has not everybody always done it?",
					says("An adapter has to keep and sort what comes early, for thousands of connections. Networks for RDMA were built to lose nothing (priority flow control), and going back was rare enough.")},
			},
			tries: []string{"keep=0"},
		},
		remains(),
		{
			name: "ack", title: "A lost acknowledgement, and why nothing is done twice", after: []string{"loss"},
			text: `If the ACK is lost, the requester cannot know whether the request was. It sends the request again, and the responder sees from the PSN that it has carried it out: a duplicate is acknowledged, and not done again. From A the two losses look the same, and roce explain says so. Look at the same run from host B with view=1.`,
			params: []param{{
				name: "view", def: 0, min: 0, max: 1, help: "where the capture is taken: 0 on host A, 1 on host B",
			}, {name: "request", def: 0, min: 0, max: 1, help: "1: the request is lost, and not the ACK"}},
			view: func(v values) stage.View { return stage.View(v["view"]) },
			warm: true, play: func(r *run) error {
				r.lose(1-r.v["request"], first)
				err := r.do(r.s.Write(0, 64))
				r.say("B counted %d duplicates.", r.s.Hosts[1].Device.Counters().DuplicateRequest)
				return err
			},
			questions: []question{
				{"Compare request=0 and request=1 from host A. What will differ in the capture?",
					says("Nothing at all. To the requester both are silence, then an answer.")},
				{"And from host B?", says("With the ACK lost, B sees the request twice and answers twice. With the request lost B sees it once: the loss has happened before its eyes begin.")},
			},
			tries: []string{"view=1", "request=1", "view=1 request=1"},
		},
		{
			name: "read", title: "A READ and its responses", after: []string{"loss", "memory"},
			text: `A READ is one small request, and as many responses as the data has packets; they take their PSNs from the requester, one each. There is no ACK for them. If one is missing, the requester asks again, from there on: a gap in the responses is an implied NAK.`,
			params: []param{{
				name: "bytes", def: 8192, min: 0, max: 65536, help: "length of the READ",
			}, {name: "lost", def: 3, min: -1, max: 63, help: "which response is lost, from 0; -1 for none",
				refuse: func(v values, _ bool) string {
					if n := packets(v["bytes"], ib.MTU1024); v["lost"] >= n {
						return fmt.Sprintf("there is no response %d: there are 0 to %d, and nothing would be lost",
							v["lost"], n-1)
					}
					return ""
				}}},
			warm: true, play: func(r *run) error {
				if r.v["lost"] >= 0 {
					r.lose(1, first.Add(r.v["lost"]))
				}
				return r.do(r.s.Read(0, r.v["bytes"]))
			},
			questions: []question{
				{"How many PSNs does the READ take, and what is the PSN of the next request?", func(r *run) string {
					n := packets(r.v["bytes"], ib.MTU1024)
					return fmt.Sprintf("%d, one for each response at a path MTU of 1024; the next request has PSN %d. Both sides have to count the same, so both need the same path MTU.", n, first.Add(n))
				}},
				{"Who bears the load of a READ?",
					says("The responder sends the data, as fast as it can, and the requester has to take it: many READs at a time are a burst towards oneself. The READ depth (max_rd_atomic) bounds it.")},
			},
			tries: []string{"lost=-1", "lost=7"},
		},
		{
			name: "atomic", title: "An atomic that is repeated is done once", after: []string{"ack", "read"},
			text: `FETCH_ADD changes memory and answers with the old value. If that answer is lost, the requester must ask again, and doing the addition again would be wrong. So a responder remembers the results of its last atomics, and answers a repeated one from memory.`,
			params: []param{{name: "add", def: 5, min: 0, max: 1000, help: "what is added"}, {name: "lost",
				def: 1, min: 0, max: 5, help: "how often the answer is lost"}},
			warm: true, play: func(r *run) error {
				if n := r.v["lost"]; n > 0 {
					r.s.Hosts[1].Faults.Add(
						fault.Rule{Action: fault.Drop, Opcode: ib.RCAtomicAck, HasOpcode: true, Times: n})
				}
				binary.NativeEndian.PutUint64(r.b(), 37)
				err := r.do(r.s.FetchAdd(0, uint64(r.v["add"])))
				r.say("Host B's memory held 37 and holds %d now; A was told %d.",
					binary.NativeEndian.Uint64(r.b()), binary.NativeEndian.Uint64(r.s.Hosts[0].MR.Bytes()))
				return err
			},
			questions: []question{
				{"How does B know that the second FETCH_ADD is the first one again?",
					says("By its PSN, which is behind what B expects. B looks it up among the answers that it keeps; how many it keeps is the depth that the two sides agree on (max_dest_rd_atomic).")},
				{"Could B not read the memory again for the answer, as it does for a READ?",
					says("No: another atomic, or a program, may have changed it since. A repeated READ does answer with what is there now.")},
			},
			tries: []string{"lost=3", "lost=0"},
		},
		{
			name: "wrap", title: "PSNs wrap", after: []string{"loss"},
			text: `A PSN has 24 bits. After 16777215 comes 0, in the middle of a message if it so happens. So "later" is not "larger": of two PSNs one is later if it lies in the half of the circle ahead. At 100 Gb/s with 4096 bytes a packet the circle is gone round every 5.5 seconds.`,
			params: []param{
				{name: "psn", def: 0xFFFFFD, min: 1, max: ib.PSNMask, help: "the first PSN of A"},
				{name: "packets", def: 6, min: 1, max: 32, help: "packets of the WRITE"},
				{name: "lost", def: 1, min: 0, max: 1, help: "1: the packet with PSN 0 is lost the first time",
					refuse: func(v values, _ bool) string {
						if end := v["psn"] + v["packets"] - 1; v["lost"] == 1 && end <= ib.PSNMask {
							return fmt.Sprintf("the WRITE has PSNs %d to %d: there is no packet 0 to lose",
								v["psn"], end)
						}
						return ""
					}},
			},
			cfg: func(v values) stage.Config { return stage.Config{PSN: [2]ib.PSN{ib.PSN(v["psn"])}} },
			play: func(r *run) error {
				if r.v["lost"] == 1 {
					r.lose(0, 0)
				}
				return r.do(r.s.Write(0, r.v["packets"]*1024))
			},
			questions: []question{
				{"Is PSN 2 before or after PSN 16777213?",
					says("After it, by 5. It is also before it, by 16777211; the shorter way counts, and a requester never has more than half of the circle on its way.")},
				{"Why do connections begin with a random PSN?",
					says("So that late packets of an earlier connection with the same queue pair numbers, and of somebody who guesses, do not fit. Both ends tell each other theirs when they connect.")},
			},
			tries: []string{"lost=0"},
		},
		{
			name: "gone", title: "Nobody answers: timeouts and retries", after: []string{"ack"},
			text: `A requester that hears nothing sends again after the ACK timeout: 4.096 us x 2^timeout, at least. After so many retries (retry_cnt, at most 7) it gives up: the request ends with "transport retry counter exceeded", and the queue pair is in the error state. That is all it can know: a host that died, a cable, a full buffer, a wrong number look the same. The two numbers decide how long an outage a connection survives. Here the network is cut.`,
			params: []param{
				{name: "timeout", def: 14, min: 10, max: 20,
					help: "the code of A's ACK timeout: 14 is 67 ms, each step doubles it"},
				{name: "retries", def: 3, min: 0, max: 7, help: "how often A sends again (retry_cnt)"},
				{name: "back", def: 0, min: 0, max: 10_000,
					help: "milliseconds after which the network is back; 0 for never"},
			},
			cfg: cutConfig, warm: true, play: playCut,
			questions: []question{
				{"How long does A try?", func(r *run) string {
					return fmt.Sprintf("%.1f ms: %s. %d retries of %.1f ms, and the first try, add up to %.1f ms at least.",
						float64(r.tookNs)/1e6, r.wcs[0].Status, r.v["retries"],
						ackTimeoutMs(r.v["timeout"]), ackTimeoutMs(r.v["timeout"])*float64(r.v["retries"]+1))
				}},
				{"Why not always the longest timeout?",
					says("A lost packet with nothing behind it is found by this timer alone, if no probe comes sooner: a long timeout makes each such loss a long stall.")},
			},
			tries: []string{"back=150", "retries=7"},
		},
	}
}

func ackTimeoutMs(code int) float64 { return 4096 * float64(uint(1)<<code) / 1e6 }

func cutConfig(v values) stage.Config {
	return stage.Config{Attr: func(_ int, a *verbs.ConnAttr) {
		a.Timeout, a.RetryCnt = ib.TimeoutCode(v["timeout"]), uint8(v["retries"])
	}}
}

// playCut writes while the network is cut.
func playCut(r *run) error {
	a, b := r.s.Hosts[0].Addr, r.s.Hosts[1].Addr
	r.s.Net.Partition(a, b, true)
	back := r.s.Net.Now() + int64(r.v["back"])*int64(time.Millisecond)
	if r.v["back"] > 0 {
		r.s.Net.At(back, func() { r.s.Net.Partition(a, b, false) })
	}
	err := r.do(r.s.Write(0, 64))
	if late := back - r.s.Net.Now(); r.v["back"] > 0 && late > 0 {
		r.say("The network is back %.1f ms after that.", float64(late)/1e6)
	}
	r.say("A's queue pair is in state %v.", r.s.Hosts[0].QP.State())
	return err
}
