package simreport

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/transport"
)

// The neighbours of a Path.
const (
	Cubic = "cubic" // RFC 9438, without HyStart
	BBR   = "bbr"   // Cardwell et al., 2016: version 1
)

// tcp is a model of a TCP flow that always has something to send: packets of 1,448 bytes, each
// acknowledged by itself, and lost if three behind it have come. What was lost is not sent again
// but counts as more data. It has what decides how much is on its way, and nothing else of TCP.
//
// Packets leave in bursts, as from Linux, and what BBR has on its way includes three of them. Where
// the queue is short this decides who has what: without, a window alone had 175 of 185 Mb/s beside
// BBR on a path of 200 Mb/s, 1 ms and 100 packets, and over the link in user space it has 28.
type tcp struct {
	control  string
	f        *sim.Fabric
	from, to *sim.Link
	there    transport.Path
	back     transport.Path
	rx       [32]transport.RxPacket
	tx       [1]transport.TxPacket
	payload  []byte

	sent      []tcpPacket // from una on
	una       uint64
	flying    int
	delivered int64 // packets
	at        int64 // when the last of them was
	cwnd      float64
	smoothed  int64 // ns: round trip

	// Cubic.
	ssthresh, most, reno float64
	epoch                int64
	recover              uint64 // losses before that are of one event

	// BBR.
	rates  [10]float64 // packets a second, of rounds
	round  int
	ends   int64 // of this round: delivered
	least  int64 // ns
	seen   int64 // when
	probe  int64 // of the round trip: until
	full   int   // rounds of startup without growth
	grown  float64
	drains bool
	cycle  int
	turned int64
	nextAt int64
	woken  bool
}

// tcpPacket is one that was sent.
type tcpPacket struct {
	at, deliveredAt int64
	delivered       int64
	done            bool
}

const (
	tcpHeaderBytes = ib.BTHBytes + 8
	tcpPayload     = 1448
	tcpMostBurst   = 65000 / tcpPayload // packets
)

func newTCP(control string, f *sim.Fabric, from, to *sim.Link) (*tcp, error) {
	x := &tcp{control: control, f: f, from: from, to: to, payload: make([]byte, tcpPayload), cwnd: 10,
		ssthresh: math.Inf(1)}
	if control != Cubic && control != BBR {
		return nil, fmt.Errorf("no model of TCP %q", control)
	}
	src, dst := from.Addrs()[0], to.Addrs()[0]
	x.there = transport.Path{Src: src, Dst: dst, HopLimit: 64}
	x.back = transport.Path{Src: dst, Dst: src, HopLimit: 64}
	to.Attach(x.receive)
	from.Attach(x.acknowledged)
	x.f.At(0, x.send)
	x.watch()
	return x, nil
}

// put sends a packet.
func (x *tcp) put(l *sim.Link, p *transport.Path, psn uint64, payload []byte) {
	t := &x.tx[0]
	*t = transport.TxPacket{Path: p, HeaderLen: tcpHeaderBytes}
	t.Header[0] = byte(ib.UDSendOnly)
	binary.BigEndian.PutUint64(t.Header[ib.BTHBytes:], psn)
	if payload != nil {
		t.NumFrags, t.PayloadLen, t.Frags[0] = 1, uint16(len(payload)), payload
	}
	l.Send(x.tx[:])
}

// receive acknowledges what comes.
func (x *tcp) receive() {
	for {
		n, err := x.to.Recv(x.rx[:])
		if n == 0 || err != nil {
			return
		}
		for i := range x.rx[:n] {
			x.put(x.to, &x.back, binary.BigEndian.Uint64(x.rx[i].Data[ib.BTHBytes:]), nil)
		}
	}
}

// acknowledged takes acknowledgements.
func (x *tcp) acknowledged() {
	for {
		n, err := x.from.Recv(x.rx[:])
		if n == 0 || err != nil {
			break
		}
		for i := range x.rx[:n] {
			x.ack(x.f.Now(), binary.BigEndian.Uint64(x.rx[i].Data[ib.BTHBytes:]))
		}
	}
	x.send()
}

func (x *tcp) ack(now int64, psn uint64) {
	if psn < x.una || x.sent[psn-x.una].done {
		return
	}
	p := &x.sent[psn-x.una]
	p.done = true
	x.flying--
	x.delivered++
	x.at = now
	if x.smoothed == 0 {
		x.smoothed = now - p.at
	}
	x.smoothed += (now - p.at - x.smoothed) / 8
	if x.control == BBR {
		x.sample(now, p)
	} else {
		x.grow(now)
	}
	for i := range x.sent {
		if x.una+uint64(i)+3 > psn {
			break
		}
		if q := &x.sent[i]; !q.done {
			q.done = true
			x.flying--
			x.lost(now, x.una+uint64(i))
		}
	}
	n := 0
	for n < len(x.sent) && x.sent[n].done {
		n++
	}
	x.sent, x.una = append(x.sent[:0], x.sent[n:]...), x.una+uint64(n)
}

// grow is an acknowledgement, for cubic.
func (x *tcp) grow(now int64) {
	if x.cwnd < x.ssthresh {
		x.cwnd++
		return
	}
	const c, beta = 0.4, 0.7
	t := float64(now-x.epoch)/1e9 + float64(x.rtt())/1e9
	k := math.Cbrt(x.most * (1 - beta) / c)
	target := c*math.Pow(t-k, 3) + x.most
	x.reno += 3 * (1 - beta) / (1 + beta) / x.cwnd // friendly to Reno
	target = min(max(target, x.reno), 1.5*x.cwnd)
	x.cwnd += max(target-x.cwnd, 0.01) / x.cwnd
}

func (x *tcp) rtt() int64 { return x.least }

// lost is a packet that was.
func (x *tcp) lost(now int64, psn uint64) {
	if x.control == BBR || psn < x.recover {
		return
	}
	x.recover = x.una + uint64(len(x.sent))
	x.most, x.epoch = x.cwnd, now
	x.cwnd = max(0.7*x.cwnd, 2)
	x.reno = x.cwnd
	x.ssthresh = x.cwnd
}

// sample is an acknowledgement, for BBR.
func (x *tcp) sample(now int64, p *tcpPacket) {
	if rtt := now - p.at; x.least == 0 || rtt <= x.least || now-x.seen > 10e9 {
		if x.least != 0 && rtt > x.least && x.probe == 0 {
			x.probe = now + 200e6
		}
		x.least, x.seen = rtt, now
	}
	rate := float64(x.delivered-p.delivered) * 1e9 / float64(max(now-p.deliveredAt, now-p.at, 1))
	if p.delivered >= x.ends { // a round has ended
		x.ends = x.delivered
		x.round++
		x.rates[x.round%len(x.rates)] = 0
		if x.full < 3 {
			if bw := x.bw(); bw >= 1.25*x.grown {
				x.grown, x.full = bw, 0
			} else if x.full++; x.full == 3 {
				x.drains = true
			}
		}
	}
	r := &x.rates[x.round%len(x.rates)]
	*r = max(*r, rate)
	if x.drains && float64(x.flying) <= x.bdp() {
		x.drains, x.turned = false, now
	}
	if now-x.turned > x.least {
		x.cycle, x.turned = (x.cycle+1)%8, now
	}
	if now > x.probe {
		x.probe = 0
	}
}

func (x *tcp) bw() float64 {
	m := 0.0
	for _, r := range x.rates {
		m = max(m, r)
	}
	return m
}

func (x *tcp) bdp() float64 { return x.bw() * float64(x.least) / 1e9 }

// limits returns the window, and the packets a second, 0 for no limit.
func (x *tcp) limits() (window, rate float64) {
	if x.control == Cubic {
		return x.cwnd, 0
	}
	bw := x.bw()
	const startup = 2.885
	switch {
	case bw == 0:
		return 10, 0
	case x.probe != 0:
		return 4, bw
	case x.full < 3:
		return max(startup*x.bdp(), 10), startup * bw
	case x.drains:
		return startup * x.bdp(), bw / startup
	}
	gain := 1.0
	switch x.cycle {
	case 0:
		gain = 1.25
	case 1:
		gain = 0.75
	}
	return max(2*x.bdp(), 4) + 3*burstOf(gain*bw), gain * bw
}

// burstOf is how many packets leave at a time at a rate: those of a millisecond.
func burstOf(rate float64) float64 { return min(max(rate/1024, 2), tcpMostBurst) }

// burst is how many packets leave now: more than that where round trips are short, and for cubic no
// more than a third of the window, for which it waits.
func (x *tcp) burst(rate float64, room int) int {
	n := 1
	paced := rate > 0
	if !paced && x.least > 0 {
		rate = 1.2 * x.cwnd * 1e9 / float64(max(x.smoothed, x.least))
	}
	if rate > 0 {
		n = int(min(burstOf(rate)+float64(int(65536)>>min(x.least/512_000, 32))/tcpPayload, tcpMostBurst))
	}
	if !paced {
		if n = min(n, max(int(x.cwnd/3), 1)); n > room && x.flying > 0 {
			return 0
		}
	}
	return min(n, room)
}

// send sends what may be.
func (x *tcp) send() {
	now := x.f.Now()
	if x.least == 0 && len(x.sent) > 0 && x.control == Cubic {
		x.least = max(now-x.sent[0].at, 1)
	}
	for {
		window, rate := x.limits()
		burst := x.burst(rate, int(window)-x.flying)
		if burst <= 0 {
			return
		}
		if rate > 0 {
			if x.nextAt > now {
				if !x.woken {
					x.woken = true
					x.f.At(x.nextAt, func() { x.woken = false; x.send() })
				}
				return
			}
			x.nextAt = max(x.nextAt, now-1e6) + int64(float64(burst)*1e9/rate)
		}
		if x.flying == 0 {
			x.at = now
		}
		for range burst {
			psn := x.una + uint64(len(x.sent))
			x.sent = append(x.sent, tcpPacket{at: now, delivered: x.delivered, deliveredAt: x.at})
			x.flying++
			x.put(x.from, &x.there, psn, x.payload)
		}
	}
}

// watch looks for a silence of 200 ms: a timeout.
func (x *tcp) watch() {
	before := x.delivered
	x.f.At(x.f.Now()+200e6, func() {
		if x.delivered == before {
			x.una, x.sent, x.flying = x.una+uint64(len(x.sent)), x.sent[:0], 0
			x.ssthresh, x.reno, x.cwnd = max(x.cwnd/2, 2), max(x.cwnd/2, 2), 1
			x.send()
		}
		x.watch()
	})
}
