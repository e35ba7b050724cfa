package transport_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/transport"
)

// selective are ends that repeat selectively.
var selective = pairConfig{}

// goBackN is for ends that do not.
var goBackN = [2]transport.Tuning{{GoBackN: true}, {GoBackN: true}}

// lose loses the packets of an end that have these PSNs, counted from the first of the direction,
// once.
func lose(p *pair, e *end, psns ...int) {
	left := map[int]bool{}
	for _, n := range psns {
		left[n] = true
	}
	p.onSend = func(f *flight) {
		if f.from == e && left[f.rel] {
			f.lost, left[f.rel] = true, false
		}
	}
}

// again returns the PSNs of an end's packets that are not first of their kind, with lengths for
// READs, and forgets the log.
func again(p *pair, e *end) (psns []int) {
	for _, f := range p.log {
		if f.from == e && f.nth > 0 && !f.pkt.Opcode.Info().Response {
			psns = append(psns, f.rel)
		}
	}
	p.log = nil
	return psns
}

// A stream asks by one packet whether the peer keeps, so its first loss need not go back.
func TestStreamAsksWhetherPeerKeeps(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		p := newPair(t, pairConfig{slowStart: true, tuning: [2]transport.Tuning{1: {GoBackN: !keeps}}})
		a, b := p.connect(linkConfig{})
		write := func() {
			src := a.fill(0, bufBytes, 1)
			clear(b.buf)
			a.post(a.write(0, 0, bufBytes))
			p.run()
			require.Len(t, a.poll(), 1)
			require.Equal(t, src, b.buf)
		}
		for range 8 {
			write()
		}
		asked := 0
		for _, f := range p.log {
			if f.from == p.ends[0] && f.pkt.Resv7 != 0 {
				require.True(t, f.pkt.AckReq)
				asked++
			}
		}
		require.Equal(t, 1, asked)
		lost := p.log[len(p.log)-1].rel + 5
		p.log = nil
		lose(p, p.ends[0], lost)
		write()
		if psns := again(p, p.ends[0]); keeps {
			require.Equal(t, []int{lost}, psns)
		} else {
			require.Greater(t, len(psns), 1, "it went back")
		}
	}
}

// The first loss finds out that the peer keeps: the requester goes back until an answer says so.
// From then on it sends what is missing.
func TestSelectiveRepeat(t *testing.T) {
	p := newPair(t, selective)
	a, b := p.connect(linkConfig{})
	src := a.fill(0, 20*1024, 1)
	lose(p, p.ends[0], 3)
	a.post(a.write(0, 0, 20*1024))
	p.run()
	require.Len(t, a.poll(), 1)
	require.Equal(t, src, b.buf[:20*1024])
	require.NotEmpty(t, again(p, p.ends[0]))

	lose(p, p.ends[0], 23, 24, 30, 31)
	clear(b.buf[:20*1024])
	a.post(a.write(0, 0, 20*1024))
	p.run()
	require.Len(t, a.poll(), 1)
	require.Equal(t, src, b.buf[:20*1024])
	for _, f := range p.log {
		if f.nth > 0 && f.from == p.ends[0] {
			require.EqualValues(t, 6*us, f.sent,
				"what an answer tells of is sent at once, over what is between: packet %d", f.rel)
		}
	}
	require.Equal(t, []int{23, 24, 30, 31}, again(p, p.ends[0]))
	require.EqualValues(t, 4, p.ends[0].eng.Counters().SelectiveRepeats)

	// What is lost again is sent again, and no more.
	n := map[int]int{}
	p.onSend = func(f *flight) {
		if f.from == p.ends[0] && f.rel == 45 {
			n[f.rel]++
			f.lost = n[f.rel] < 4
		}
	}
	a.post(a.write(0, 0, 20*1024))
	p.run()
	require.Len(t, a.poll(), 1)
	require.Equal(t, []int{45, 45, 45}, again(p, p.ends[0])[:3])
	require.Zero(t, p.ends[0].eng.Counters().Timeouts)
}

// What one queue pair has found out others to that address know by the first answer: they go back
// at no loss.
func TestSelectiveRepeatByOthers(t *testing.T) {
	const packets = 20
	for name, c := range map[string]struct {
		room transport.Room
		same bool
	}{"known": {roomFor(1000), true}, "not bounded": {transport.Room{}, false}} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, pairConfig{room: [2]transport.Room{c.room}})
			first, _ := p.connect(linkConfig{})
			second, b := p.connect(linkConfig{})
			lose(p, p.ends[0], 3)
			first.post(first.write(0, 0, packets*1024))
			p.run()
			again(p, p.ends[0])

			second.post(second.write(0, 0, 64))
			p.run()
			for _, f := range p.log {
				require.Equal(t, c.same, f.pkt.Resv7 == ib.Resv7Selective,
					"from its first packet on, and in the answer")
			}
			src := second.fill(0, packets*1024, 2)
			before := p.ends[0].eng.Counters()
			n := 0
			p.onSend = func(f *flight) {
				if f.from == p.ends[0] && f.nth == 0 {
					n++
					f.lost = n == 4
				}
			}
			second.post(second.write(0, 0, packets*1024))
			p.run()
			require.Equal(t, src, b.buf[:packets*1024])
			after := p.ends[0].eng.Counters()
			require.Equal(t, c.same, after.RetransmittedPkts-before.RetransmittedPkts == 1)
			require.Equal(t, c.same, after.CompleterRetryErr == before.CompleterRetryErr)
		})
	}
}

// An ACK timeout shorter than the first round trip looks as if an offer of selective repeat had
// been refused. The next loss offers it again, and is found to be alone.
func TestSelectiveRepeatOnLongPath(t *testing.T) {
	p := newPair(t, pairConfig{})
	p.delay = 10 * ms
	// 17 ms, with a probe after a quarter.
	a, b := p.connect(linkConfig{attr: func(_ *link, a *transport.QPAttr) { a.Timeout = 12 }})
	src := a.fill(0, 64*1024, 1)
	a.post(a.write(0, 0, 1024))
	p.run()
	c := p.ends[0].eng.Counters()
	require.NotZero(t, c.LossProbes, "it offers")
	require.NotZero(t, c.Timeouts)
	for range 2 {
		n := 0
		p.onSend = func(f *flight) {
			if f.from == p.ends[0] && f.nth == 0 {
				n++
				f.lost = n == 4
			}
		}
		a.post(a.write(0, 0, 20*1024))
		p.run()
	}
	require.Equal(t, src[:20*1024], b.buf[:20*1024])
	require.NotZero(t, p.ends[0].eng.Counters().SelectiveRepeats)
}

// A peer that never answers a packet with the bit is offered selective repeat only so often.
func TestSelectiveRepeatRefused(t *testing.T) {
	p := newPair(t, pairConfig{})
	a, b := p.connect(linkConfig{})
	src := a.fill(0, 64*1024, 1)
	offers := 0
	for range 8 {
		lost := false
		p.onSend = func(f *flight) {
			if f.from != p.ends[0] {
				return
			}
			if f.pkt.Resv7 == ib.Resv7Selective {
				offers++
				f.lost = true
			} else if f.nth == 0 && !lost {
				f.lost, lost = true, true
			}
		}
		a.post(a.write(0, 0, 8*1024))
		p.run()
		require.Len(t, a.poll(), 1)
	}
	require.Equal(t, src[:8*1024], b.buf[:8*1024])
	require.NotZero(t, offers)
	before := offers
	a.post(a.write(0, 0, 8*1024))
	p.run()
	require.Equal(t, before, offers)
}

// overtaken delays the packets with data of an end: each by a little more than the one before, the
// one with a PSN so that n others come before it.
func overtaken(p *pair, e *end, rel, n int) {
	p.onSend = func(f *flight) {
		if f.from == e && len(f.pkt.Payload) > 0 {
			f.at += int64(f.rel) * 100
			if f.rel == rel && f.nth == 0 {
				f.at += int64(n)*100 + 50
			}
		}
	}
}

// Three packets that overtake one cost nothing, once the ends know each other. If more do, it is
// sent again; that it comes all the same is noticed, and then so many may.
func TestSelectiveReorder(t *testing.T) {
	for _, read := range []bool{false, true} {
		p := newPair(t, selective)
		a, b := p.connect(linkConfig{})
		from, to := a, b
		wr, data := a.write(0, 0, 20*1024), p.ends[0]
		if read {
			from, to = b, a
			wr, data = a.read(0, 0, 20*1024), p.ends[1]
		}
		src := from.fill(0, 20*1024, 1)
		play := func() (again, forNothing uint64) {
			clear(to.buf[:20*1024])
			before := p.ends[0].eng.Counters()
			a.post(wr)
			p.run()
			require.Len(t, a.poll(), 1)
			require.Equal(t, src, to.buf[:20*1024])
			c := p.ends[0].eng.Counters()
			require.Zero(t, c.Timeouts)
			return c.RetransmittedPkts - before.RetransmittedPkts, c.SpuriousRepeats - before.SpuriousRepeats
		}
		lose(p, data, 1)
		play()
		overtaken(p, data, 25, 3)
		again, _ := play()
		require.Zero(t, again, "read %v", read)
		overtaken(p, data, 45, 14)
		again, forNothing := play()
		require.EqualValues(t, 1, again, "read %v", read)
		require.EqualValues(t, 1, forNothing, "read %v", read)
		overtaken(p, data, 65, 6)
		again, _ = play()
		require.Zero(t, again, "read %v", read)
	}
}

// A READ request that was lost is repeated as a whole, also where its last packets are so near to
// the next request that they may have been overtaken. It is not repeated again before its answer
// can come.
func TestSelectiveReadRequest(t *testing.T) {
	p := newPair(t, selective)
	p.delay = ms
	a, b := p.connect(linkConfig{attr: func(_ *link, a *transport.QPAttr) { a.Timeout = 17 }})
	src := b.fill(0, 22*1024, 1)
	lose(p, p.ends[1], 1)
	for i := range 3 {
		clear(a.buf[:22*1024])
		a.post(a.read(0, 0, 20*1024))
		a.post(a.read(20*1024, 20*1024, 2*1024))
		p.run()
		require.Len(t, a.poll(), 2)
		require.Equal(t, src, a.buf[:22*1024])
		data := 0
		for _, f := range p.log {
			if len(f.pkt.Payload) > 0 && f.pkt.Opcode.Info().Response && f.pkt.Opcode != ib.RCAcknowledge {
				data++
			}
		}
		p.log = nil
		if i > 0 {
			require.Equal(t, 22, data)
		}
		lose(p, p.ends[0], 22*(i+1))
	}
	require.Zero(t, p.ends[0].eng.Counters().Timeouts)
}

// A response that comes late, right after it was asked for a second time, answers the first
// request: what was kept behind it is handled, and not asked for again.
func TestSelectiveReadLate(t *testing.T) {
	p := newPair(t, pairConfig{tuning: [2]transport.Tuning{{LossProbe: -1}}})
	p.delay = ms
	a, b := p.connect(linkConfig{attr: func(_ *link, a *transport.QPAttr) { a.Timeout = 20 }})
	src := b.fill(0, 20*1024, 1)
	lose(p, p.ends[1], 1)
	a.post(a.read(0, 0, 20*1024))
	p.run()
	require.Len(t, a.poll(), 1)
	p.log = nil

	asked := 0
	var late []*flight
	p.onSend = func(f *flight) {
		switch data := f.from == p.ends[1]; {
		case !data && f.rel == 25:
			asked++
			for _, f := range late {
				f.at = p.now + 100*us
			}
		case !data || f.rel < 25 || f.rel >= 30:
		case asked == 0:
			f.lost = true
		case asked == 1:
			f.at += 2 * second
			late = append(late, f)
		}
	}
	clear(a.buf[:20*1024])
	a.post(a.read(0, 0, 20*1024))
	p.run()
	require.Len(t, a.poll(), 1)
	require.Equal(t, src, a.buf[:20*1024])
	data := 0
	for _, f := range p.log {
		if f.from == p.ends[1] && len(f.pkt.Payload) > 0 {
			data++
		}
	}
	require.Equal(t, 20+2*5, data)
}

// A burst that takes READ requests, and as many probes as came before the ACK timeout, ends with
// the next: where packets are lost a probe of READs has a few, and there are more of them. They
// bring no more than they ask for.
func TestSelectiveReadBurst(t *testing.T) {
	for _, c := range []struct{ packets, burst int }{{20, 8}, {20, 24}, {1, 3}} {
		p := newPair(t, selective)
		p.delay = 100 * us
		a, b := p.connect(linkConfig{attr: func(_ *link, a *transport.QPAttr) { a.Timeout = 17 }})
		src := b.fill(0, 20*1024, 1)
		read := func(n int) {
			p.log = nil
			clear(a.buf[:n*1024])
			a.post(a.read(0, 0, n*1024))
			p.run()
			require.Len(t, a.poll(), 1)
			require.Equal(t, src[:n*1024], a.buf[:n*1024])
		}
		for i := range 2 {
			lose(p, p.ends[1], 20*i+1)
			read(20)
		}
		left := c.burst
		p.onSend = func(f *flight) {
			if f.lost = f.from == p.ends[0] && left > 0; f.lost {
				left--
			}
		}
		read(c.packets)
		data := 0
		for _, f := range p.log {
			if f.from == p.ends[1] && len(f.pkt.Payload) > 0 && f.pkt.Opcode != ib.RCAcknowledge {
				data++
			}
		}
		require.LessOrEqual(t, data, c.packets+8, c)
		require.Zero(t, p.ends[0].eng.Counters().Timeouts, c)
	}
}

// A READ that the network doubles is answered once, and its responses were not sent again for
// nothing.
func TestSelectiveDoubled(t *testing.T) {
	p := newPair(t, selective)
	a, b := p.connect(linkConfig{})
	src := b.fill(0, 20*1024, 1)
	for i, lost := range []int{1, 25, 47} {
		first, sent, gone := i == 0, 0, false
		p.onSend = func(f *flight) {
			if f.from == p.ends[1] && len(f.pkt.Payload) > 0 {
				sent++
				f.lost = f.rel == lost && !gone
				gone = gone || f.lost
			}
			if !first && f.rel != lost {
				f.copies = 1
			}
		}
		clear(a.buf[:20*1024])
		a.post(a.read(0, 0, 20*1024))
		p.run()
		require.Len(t, a.poll(), 1)
		require.Equal(t, src, a.buf[:20*1024])
		if !first {
			require.Equal(t, 20+1, sent)
			require.Zero(t, p.ends[0].eng.Counters().SpuriousRepeats)
		}
	}
}

// A READ is asked for again in the parts that are missing; of a peer that goes back, in the first
// that is.
func TestSelectiveRead(t *testing.T) {
	for _, peer := range []bool{true, false} {
		c := selective
		c.tuning[1].GoBackN = !peer
		p := newPair(t, c)
		a, b := p.connect(linkConfig{})
		want := b.fill(0, 20*1024, 3)
		lose(p, p.ends[1], 2, 3, 9)
		a.post(a.read(0, 0, 20*1024))
		p.run()
		require.Len(t, a.poll(), 1)
		require.Equal(t, want, a.buf[:20*1024])
		asked := 0
		for _, f := range p.log {
			if f.from == p.ends[0] && f.pkt.Opcode == ib.RCReadRequest && f.rel > 0 {
				asked += int(f.pkt.RETH.Len)
			}
		}
		require.Equal(t, 3*1024, asked, "peer %v", peer)
	}
}

// Each packet, and each two, of a program of all operations is lost, doubled, or late, between ends
// that know each other: everything is done once, in order, and the PSNs wrap.
func TestSelectiveEveryPacket(t *testing.T) {
	seeds.Long(t)
	faults := map[string]func(f *flight){
		"lost":      func(f *flight) { f.lost = true },
		"doubled":   func(f *flight) { f.copies = 1 },
		"late":      func(f *flight) { f.at += 5 * us },
		"very late": func(f *flight) { f.at += 3 * ms },
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			total := 0
			for first := -1; first < total || total == 0; first++ {
				for second := first; second < total || total == 0; second += 1 + second%3 {
					n := playSelective(t, func(n int, f *flight) {
						if n == first || n == second {
							fault(f)
						}
					})
					if total = max(total, n); first < 0 {
						break
					}
				}
			}
			require.Greater(t, total, 15)
		})
	}
}

// playSelective plays it, with a fault for the packet with a number, and returns how many packets
// there were.
func playSelective(t *testing.T, fault func(n int, f *flight)) (n int) {
	p := newPair(t, selective)
	a, b := p.connect(linkConfig{})
	lose(p, p.ends[0], 0)
	a.post(a.write(0, 0x4000, 3000))
	p.run()
	lose(p, p.ends[1], 4)
	a.post(a.read(0x8000, 0x8000, 3000))
	p.run()
	require.Len(t, a.poll(), 2)
	p.onSend = func(f *flight) {
		fault(n, f)
		n++
	}
	playAll(t, p, a, b)
	return n
}

// sentAgain marks a packet of a puppet as one that is sent again, by a requester that knows
// selective repeat.
func sentAgain(p *ib.Packet) { p.Resv7 = 0x40 }

// Nothing is executed, and nothing completes, before its turn. What came before its turn is
// executed in it if what was missing was sent again, or if it comes again itself: a requester that
// goes back sees an ACK of all after one packet.
func TestKeptInTurn(t *testing.T) {
	for _, knows := range []bool{true, false} {
		d := newPuppet(t, pairConfig{}, linkConfig{})
		for i := range 3 {
			d.a.recv(uint64(i), 64*i, 64)
		}
		d.send(ib.RCSendOnly, 1, []byte("secnd"))
		d.send(ib.RCSendOnly, 2, []byte("third"))
		d.want("a> ACKNOWLEDGE 0 NAK PSN sequence error msn=0")
		require.Empty(t, d.a.poll())
		require.Equal(t, make([]byte, 192), d.a.buf[:192])
		if knows {
			d.send(ib.RCSendOnly, 0, []byte("first"), sentAgain)
			d.want("a> ACKNOWLEDGE 2 ACK msn=3")
		} else {
			d.send(ib.RCSendOnly, 0, []byte("first"))
			d.want("a> ACKNOWLEDGE 0 ACK msn=1")
			d.send(ib.RCSendOnly, 1, []byte("secnd"))
			d.want("a> ACKNOWLEDGE 2 ACK msn=3")
		}
		d.a.wantWC("0 success", "1 success", "2 success")
		require.Equal(t, "third", string(d.a.buf[128:133]))
	}
}

// A packet that somebody made up, who knows neither the PSN that is expected nor what is sent, is
// not executed: the peer's own is. It makes one NAK, as without selective repeat.
func TestKeptForged(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	for i := range 8 {
		d.a.recv(uint64(i), 64*i, 64)
	}
	for _, psn := range []int{1, 2, 5} {
		d.send(ib.RCSendOnly, psn, []byte("forged"))
	}
	require.EqualValues(t, 3, d.a.eng.Counters().KeptAhead)
	for psn := range 8 {
		d.send(ib.RCSendOnly, psn, []byte("honest"))
	}
	d.a.wantWC("0 success", "1 success", "2 success", "3 success", "4 success", "5 success", "6 success", "7 success")
	for i := range 8 {
		require.Equal(t, "honest", string(d.a.buf[64*i:64*i+6]), "%d", i)
	}
	require.Zero(t, d.a.eng.Counters().KeptInTurn)
	require.EqualValues(t, 1, d.a.eng.Counters().SentSeqNAKs)
	d.wait(1e9)
	require.EqualValues(t, 1, d.a.eng.Counters().SentSeqNAKs, "nothing is missing")
}

// The same of a response to a READ.
func TestKeptForgedResponse(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	d.a.post(d.a.read(0, 0, 6*1024))
	d.pump()
	d.drain()
	answer := func(psn int, c byte) {
		op := ib.RCReadRespMiddle
		switch psn {
		case 0:
			op = ib.RCReadRespFirst
		case 5:
			op = ib.RCReadRespLast
		}
		d.send(op, psn, bytes.Repeat([]byte{c}, 1024), msn(1))
	}
	for _, psn := range []int{1, 2, 4, 5} {
		answer(psn, 'f')
	}
	for psn := range 6 {
		answer(psn, 'h')
	}
	require.Equal(t, bytes.Repeat([]byte{'h'}, 6*1024), d.a.buf[:6*1024])
	d.a.wantWC("1 success")
}

// What was kept meets in its turn what it would meet if it came then: no receive, and memory that
// was taken away.
func TestKeptIsCheckedInTurn(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	d.send(ib.RCWriteOnly, 0, []byte("12345678"))
	d.send(ib.RCSendOnly, 2, []byte("late"))
	d.send(ib.RCWriteOnly, 3, []byte("abcdefgh"))
	d.want(`
		a> ACKNOWLEDGE 0 ACK msn=1
		a> ACKNOWLEDGE 1 NAK PSN sequence error msn=1`)
	d.send(ib.RCWriteOnly, 1, []byte("12345678"), sentAgain)
	d.want(`
		a> ACKNOWLEDGE 1 ACK msn=2
		a> ACKNOWLEDGE 2 RNR NAK timer=12 msn=2`)
	require.Equal(t, "12345678", string(d.a.buf[:8]), "nothing behind the SEND")
	d.a.recv(7, 64, 64)
	require.NoError(t, d.a.region.Deregister(nil))
	d.send(ib.RCSendOnly, 2, []byte("late"), sentAgain)
	require.Equal(t, uint64(1), d.a.eng.Counters().KeptInTurn)
	d.wantState(transport.StateErr)
}

// A queue pair that drains has all of what it began, also what is missing.
func TestSelectiveDrains(t *testing.T) {
	p := newPair(t, selective)
	a, b := p.connect(linkConfig{})
	lose(p, p.ends[0], 1)
	src := a.fill(0, 20*1024, 1)
	a.post(a.write(0, 0, 20*1024))
	p.run()
	clear(b.buf[:20*1024])
	lose(p, p.ends[0], 23, 27, 35)
	a.post(a.write(0, 0, 20*1024))
	p.pump()
	require.NoError(t, a.qp.Modify(p.now, transport.QPAttr{State: transport.StateSQD}, transport.AttrState))
	a.post(a.write(0, 0x10000, 64))
	p.run()
	require.Len(t, a.poll(), 2)
	require.Equal(t, src, b.buf[:20*1024])
	require.NoError(t, a.qp.Modify(p.now, transport.QPAttr{State: transport.StateRTS}, transport.AttrState))
	p.run()
	require.Len(t, a.poll(), 1)
	require.Zero(t, a.eng.Counters().Timeouts)
}

// What is kept is bounded by the distance, and of two that differ neither is believed.
func TestKeptBounds(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	kept := func() uint64 { return d.a.eng.Counters().KeptAhead }
	d.send(ib.RCWriteOnly, 2049, make([]byte, 8))
	d.send(ib.RCWriteOnly, 5000, make([]byte, 8))
	require.Zero(t, kept())
	for psn := 60; psn < 3000; psn += 60 {
		d.send(ib.RCWriteOnly, psn, make([]byte, 8))
	}
	require.EqualValues(t, 2048/60, kept(), "no further ahead than a window")
	d.pump()
	d.log = nil
	d.send(ib.RCWriteOnly, 1, make([]byte, 8))
	d.send(ib.RCWriteOnly, 1, []byte("another1"))
	d.send(ib.RCWriteOnly, 0, make([]byte, 8))
	d.pump()
	require.EqualValues(t, 1, d.a.eng.Counters().KeptAhead-2048/60)
	require.Zero(t, d.a.eng.Counters().KeptInTurn)
}

// A peer that uses a large window has more of it kept, without a gap that matters, and all of it is
// executed when what was missing comes: also beyond the last PSN.
func TestKeptOfALargeWindow(t *testing.T) {
	const most = 8192
	wraps := linkConfig{attr: func(l *link, a *transport.QPAttr) {
		if a.SQPSN == testSQPSN1 {
			a.SQPSN = testSQPSN0 - most/2
		} else {
			a.RQPSN = testSQPSN0 - most/2
		}
	}}
	d := newPuppet(t, pairConfig{}, wraps)
	kept := func() uint64 { return d.a.eng.Counters().KeptAhead }
	for psn := 1; psn < most+100; psn++ {
		if psn%10 == 0 {
			continue
		}
		d.send(ib.RCWriteOnly, psn, make([]byte, 8))
	}
	require.EqualValues(t, most-most/10, kept())
	d.pump()
	d.log = nil
	for psn := 0; psn <= most; psn += 10 {
		d.send(ib.RCWriteOnly, psn, make([]byte, 8), sentAgain)
	}
	require.EqualValues(t, most-most/10, d.a.eng.Counters().KeptInTurn)
	// Half of it is too little.
	d = newPuppet(t, pairConfig{}, linkConfig{})
	for psn := 3; psn < most; psn += 3 {
		d.send(ib.RCWriteOnly, psn, make([]byte, 8))
	}
	require.EqualValues(t, 2048/3, kept())
}

// After a timeout the rest of a READ is requested once. Kept responses have no say in that: while
// the answers come in order, nothing is requested again, whether the peer is believed to have sent
// what was kept or not. A response that is lost once more is.
func TestReadAgainOnce(t *testing.T) {
	const n = 12
	for _, missing := range []int{0, 5} { // besides the first
		d := newPuppet(t, pairConfig{tuning: [2]transport.Tuning{{LossProbe: -1}}}, linkConfig{})
		d.a.post(d.a.read(0, 0, n*1024))
		d.pump()
		d.drain()
		answer := func(psn int) {
			op := ib.RCReadRespMiddle
			switch psn {
			case 0:
				op = ib.RCReadRespFirst
			case n - 1:
				op = ib.RCReadRespLast
			}
			d.send(op, psn, bytes.Repeat([]byte{byte(psn + 1)}, 1024), msn(1))
		}
		for psn := 1; psn < n; psn++ {
			if psn != missing {
				answer(psn)
			}
		}
		require.NotZero(t, d.a.eng.Counters().KeptAhead)
		asked := func() (psns []int) {
			for _, f := range d.log {
				if f.pkt.Opcode == ib.RCReadRequest {
					psns = append(psns, f.rel)
				}
			}
			d.log = nil
			return psns
		}
		asked()
		for d.a.eng.Counters().Timeouts == 0 {
			d.wait(ms)
		}
		require.Equal(t, []int{0}, asked())
		for psn := range n - 2 {
			answer(psn)
		}
		require.Empty(t, asked(), "missing: %d", missing)
		answer(n - 1) // and not the one before it
		require.Len(t, asked(), 1, "missing: %d", missing)
		answer(n - 2)
		answer(n - 1)
		d.a.wantWC("1 success")
		for psn := range n {
			require.EqualValues(t, psn+1, d.a.buf[psn*1024])
		}
	}
}
