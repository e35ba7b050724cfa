package lesson

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/verbs"
)

func connecting() []lesson {
	return []lesson{
		{
			name: "connect", title: "Connected by hand: no packet says so",
			text: `A queue pair (QP) is one end of a connection. To connect two, each program tells the other three things, by whatever means it has: the address, the queue pair number and the first PSN. Then each takes its own QP from RESET through INIT (it may have receives) and RTR (it can receive) to RTS (it can send). Nothing of that is on the wire: the first packet is the first request. If the other side is not there yet, or waits for another PSN, nobody says so in words.`,
			params: []param{
				{name: "late", def: 5000, min: 0, max: 100_000,
					help: "microseconds after A's first request until B is in RTR; 0: before it"},
				{name: "psn", def: 0, min: -2, max: 100,
					help: "by how much A's first PSN is ahead of the one that B was told; negative: behind it"},
			},
			cfg: func(values) stage.Config { return stage.Config{Bare: true} },
			play: func(r *run) error {
				a, b := r.s.Hosts[0], r.s.Hosts[1]
				var qps [2]*verbs.QP
				for i, h := range r.s.Hosts {
					var err error
					if qps[i], err = h.PD.CreateQP(verbs.QPInitAttr{
						Type: verbs.RC, SendCQ: h.CQ, QPN: ib.QPN(0x11 + i*0x11),
					}); err != nil {
						return err
					}
					qps[i].SetPSN([]ib.PSN{1000, 5000}[i])
				}
				r.s.Use(qps)
				told := a.QP.LocalInfo(0)
				told.PSN = told.PSN.Add(-r.v["psn"])
				attr := verbs.DefaultConnAttr()
				attr.RetryCnt = 2
				if err := b.QP.ToInit(attr.Access); err != nil {
					return err
				}
				var late error
				ready := func() {
					late = b.QP.Connect(told, nil)
					r.say("At %.1f us B's queue pair is in state %v, and expects PSN %d.", r.us(),
						b.QP.State(), told.PSN)
				}
				if r.v["late"] > 0 {
					r.s.Net.At(int64(r.v["late"])*1000, ready)
				} else {
					ready()
				}
				if err := a.QP.Connect(b.QP.LocalInfo(0), &attr); err != nil {
					return err
				}
				r.say("When A posts its WRITE, its queue pair is in state %v and B's in %v.",
					a.QP.State(), b.QP.State())
				copy(a.MR.Bytes(), "hello")
				err := r.do(r.s.Write(0, 5))
				r.say("B's memory begins with %q. B has thrown away %d packets because its queue pair was not ready.",
					b.MR.Bytes()[:5], b.Device.Counters().DropState)
				return errors.Join(err, late)
			},
			questions: []question{
				{"B gets into RTR late. What becomes of A's first packet, and who finds out?", func(r *run) string {
					if n := r.s.Hosts[1].Device.Counters().DropState; n > 0 {
						return fmt.Sprintf("B threw %d away in silence, and A's timer found out: it had no answer. So programs exchange one more word before they send, or the receiver's side is made ready first.", n)
					}
					return "Nothing: B was ready in time. The WRITE took a round trip."
				}},
				{"What does B do with a first PSN that is ahead of what it expects?",
					says("It says so, with a sequence NAK, as if the packets before had been lost. A has never sent those, can do nothing with such a NAK, and gives up when its retries have run out: see with late=0 psn=1.")},
				{"And with one that is behind?",
					says("Nothing: to B it is an old packet, older than any that this connection can have had. A's retries run out: see with late=0 psn=-1. So the two programs must tell each other the PSNs as exactly as the numbers of the queue pairs.")},
			},
			tries: []string{"late=0", "late=0 psn=1", "late=0 psn=-1"},
		},
		{
			name: "cm", title: "Connected by RDMA-CM: three datagrams", after: []string{"connect"},
			turns: func(values) bool { return true },
			text:  `The connection manager does the same with packets. It sends datagrams to queue pair 1, which every host has: REQ (my queue pair, my PSN, may I?), REP (yes, and here are mine) and RTU (ready to use). A server listens on a port, as with TCP; the number is RDMA-CM's own. At the end DREQ asks for the disconnect, and DREP agrees. Each datagram that needs an answer is repeated until there is one.`,
			params: []param{
				{name: "lost", def: 0, min: 0, max: 3,
					help: "which one is lost the first time: 1 REQ, 2 REP, 3 RTU; 0 none",
					refuse: func(v values, _ bool) string {
						if v["lost"] == 3 && v["listen"] == 0 {
							return "no RTU is sent if nobody listens: nothing would be lost"
						}
						return ""
					}},
				{name: "listen", def: 1, min: 0, max: 1, help: "0: nobody listens at B"},
			},
			cfg: func(values) stage.Config { return stage.Config{Bare: true} },
			play: func(r *run) error {
				if n := r.v["lost"]; n > 0 {
					at := [...]struct{ host, nth int }{{0, 1}, {1, 1}, {0, 2}}[n-1]
					rule := r.s.Hosts[at.host].Faults.Add(fault.Rule{
						Action: fault.Drop, Opcode: ib.UDSendOnly, HasOpcode: true, Every: at.nth, Times: 1,
					})
					r.planned = append(r.planned, planned{at.host, rule, 0})
				}
				return r.dial()
			},
			questions: []question{
				{"How many round trips pass before A can send?",
					says("One: A has B's numbers with the REP. The RTU need not have come before A's first request does; B takes that for the same news.")},
				{"What does A get if nobody listens?",
					says("A REJ, at once, with the reason \"invalid service ID\": the program sees a refused connection, as with TCP. See with listen=0.")},
				{"Which of the three can be lost without a delay?",
					says("The RTU, if A sends something: its first request tells B the same. See with lost=3; lost=1 and lost=2 cost the wait until the REQ is repeated.")},
			},
			tries: []string{"lost=1", "lost=3", "listen=0"},
		},
	}
}

// dial connects A to a service on B, which answers a message, and disconnects.
func (r *run) dial() error {
	const port = 7000
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	device := func(host int) roce.ConnConfig {
		return roce.ConnConfig{Device: r.s.Hosts[host].Device, KeepAlive: -1}
	}
	listen := port
	if r.v["listen"] == 0 { // as in the quiz
		listen++
	}
	l, err := (&roce.ListenConfig{ConnConfig: device(1)}).ListenAddr(netip.AddrPortFrom(r.s.Hosts[1].Addr,
		uint16(listen)))
	if err != nil {
		return err
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = l.Serve(ctx, func(ctx context.Context, c *roce.Conn) error {
			_, err := c.Recv(ctx, make([]byte, 100))
			if err == nil {
				_, err = c.Recv(ctx, make([]byte, 100)) // until A disconnects
			}
			return err
		})
	}()
	start := time.Now()
	c, err := (&roce.Dialer{ConnConfig: device(0)}).DialAddr(ctx, netip.AddrPortFrom(r.s.Hosts[1].Addr, port))
	r.say("After %v Dial returns: %v.", time.Since(start), map[bool]any{true: "connected", false: err}[err == nil])
	if err == nil {
		err = c.Send(ctx, []byte("hello"))
		err = errors.Join(err, c.Close())
	} else if r.refused = errors.Is(err, roce.ErrConnRefused); r.refused {
		err = nil
	}
	time.Sleep(time.Minute) // virtual: everything has its timeouts
	stop()
	<-served
	return err
}
