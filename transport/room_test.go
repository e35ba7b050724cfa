package transport_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
)

// roomFor is a room in which every packet takes one unit: a flight gets half of it,
// READs three quarters.
func roomFor(packets int) transport.Room { return transport.Room{Size: packets, PerPacket: 1} }

// crowd is n connections of a pair whose first end knows its room.
func crowd(t *testing.T, n, room int) (p *pair, as, bs []*link) {
	p = newPair(t, pairConfig{room: [2]transport.Room{roomFor(room)}})
	for range n {
		a, b := p.connect(linkConfig{})
		as, bs = append(as, a), append(bs, b)
	}
	return p, as, bs
}

// onTheWay counts packets of a kind that were sent by from and not delivered.
func (p *pair) onTheWay(match func(*flight) bool) (n int) {
	for _, f := range p.flying {
		if match(f) {
			n++
		}
	}
	return n
}

// Requests of all queue pairs together stay within the peer's room, each queue pair gets
// its turn, and nothing is sent twice.
func TestFlight(t *testing.T) {
	const qps, room, rounds = 20, 16, 5
	p, as, _ := crowd(t, qps, room)
	for i, a := range as {
		for range rounds {
			a.post(a.write(0, i*64, 64))
		}
	}
	done := map[ib.QPN]int{}
	most := 0
	for {
		p.pump()
		most = max(most, p.onTheWay(func(f *flight) bool { return f.from.i == 0 }))
		if !p.step(1 << 62) {
			break
		}
		for _, wc := range as[0].poll() {
			done[wc.QPN]++
			// The first two have found room for all they had before anybody waited.
			lo, hi := rounds, 0
			for _, a := range as[2:] {
				n := done[a.qp.Number()]
				lo, hi = min(lo, n), max(hi, n)
			}
			require.LessOrEqual(t, hi-lo, 2, "turns")
		}
	}
	require.Equal(t, room/2, most)
	for _, a := range as {
		require.Equal(t, rounds, done[a.qp.Number()])
	}
	c := as[0].eng.Counters()
	require.Zero(t, c.RetransmittedPkts+c.Timeouts)
}

// A queue pair that has nothing on its way knows when others have, to the same peer: a few
// conversations do not count, many do.
func TestInFlight(t *testing.T) {
	p, as, _ := crowd(t, 6, 64)
	other := as[5].qp
	for i, a := range as[:5] {
		require.Equal(t, i >= 4, other.InFlight(), "%d others", i)
		require.Equal(t, i >= 4, a.qp.InFlight())
		a.post(a.write(0, i*64, 64))
		p.pump()
		require.True(t, a.qp.InFlight(), "its own")
	}
	p.run()
	for _, a := range as {
		require.False(t, a.qp.InFlight())
	}
}

// No more responses to READs are on their way than the requester has room for,
// whatever the READs; all are answered, and none is asked for again.
func TestReadsWithinRoom(t *testing.T) {
	const qps, room, mtu = 6, 40, 1024
	p, as, _ := crowd(t, qps, room)
	for i, a := range as {
		for k, n := range []int{100 * mtu, 10, 3 * mtu, 33 * mtu} {
			a.post(a.read(bufBytes/2, i*64+k, n))
		}
	}
	most := 0
	for {
		p.pump()
		asked := 0
		for _, f := range p.flying {
			switch {
			case f.pkt.Opcode == ib.RCReadRequest:
				asked += max(1, (int(f.pkt.RETH.Len)+mtu-1)/mtu)
			case f.from.i == 1:
				asked++
			}
		}
		most = max(most, asked)
		if !p.step(1 << 62) {
			break
		}
	}
	require.LessOrEqual(t, most, room*3/4)
	require.Greater(t, most, room/2)
	require.Len(t, as[0].poll(), 4*qps)
	c := as[0].eng.Counters()
	require.Zero(t, c.RetransmittedPkts+c.Timeouts+c.ImpliedNAKs)
}

// A queue pair that goes back and has to wait for room uses up no retries while it does,
// and peers that are gone do not keep the room from others.
func TestRoomOfTheDead(t *testing.T) {
	const dead, room = 50, 8
	p, as, bs := crowd(t, dead+1, room)
	for _, b := range bs[:dead] {
		require.NoError(t, b.qp.Destroy())
	}
	live := as[dead]
	for i, a := range as {
		a.post(a.write(0, i*64, 64))
	}
	for range 30 {
		p.advance(100 * us)
		live.post(live.write(0, 0, 64))
	}
	p.run()
	done := map[transport.WCStatus]int{}
	for _, wc := range live.poll() {
		done[wc.Status]++
	}
	require.Equal(t, map[transport.WCStatus]int{transport.WCSuccess: 31, transport.WCRetryExcErr: dead}, done)
	c := as[0].eng.Counters()
	require.EqualValues(t, dead*8, c.Timeouts)
}

// Loss makes the bound smaller, and progress makes it what it was.
func TestFlightAdapts(t *testing.T) {
	const qps, room = 40, 64
	p, as, _ := crowd(t, qps, room)
	drop := true
	p.onSend = func(f *flight) { f.lost = drop && f.from.i == 0 && f.seq%2 == 0 }
	post := func() {
		for i, a := range as {
			for range 3 {
				a.post(a.write(0, i*64, 64))
			}
		}
	}
	post()
	p.advance(5 * ms)
	bound := as[0].eng.FlightSize(as[1].peer().addr)
	require.Less(t, bound, room/2)
	drop = false
	for range 40 {
		p.run()
		for _, a := range as {
			a.poll()
		}
		post()
	}
	p.run()
	require.Equal(t, room/2, as[0].eng.FlightSize(as[1].peer().addr))
}

// What was sent to peers that do not answer gives its room back after a few round trips, and not
// only with the next ACK timeout: once they are known, a live one waits for no more than
// a few of these.
func TestDeadPeersGiveRoomBack(t *testing.T) {
	const dead, room, writes = 50, 8, 40
	p, as, bs := crowd(t, dead+1, room)
	for _, b := range bs[:dead] {
		require.NoError(t, b.qp.Destroy())
	}
	live := as[dead]
	for i, a := range as {
		a.post(a.write(0, i*64, 64))
	}
	longest, last := int64(0), int64(0)
	for done := 0; done < writes; {
		require.True(t, p.step(1<<62))
		for _, wc := range live.poll() {
			if wc.Status != transport.WCSuccess {
				continue // of a dead one
			}
			if done++; done > 1 {
				longest = max(longest, p.now-last)
			}
			last = p.now
			live.post(live.write(0, 0, 64))
		}
	}
	require.Less(t, longest, 4*live.attr.Timeout.Ns(), "each of the others has eight timeouts")
}

// Round trips that have become longer by a good part of the ACK timeout are those of a peer that is
// behind: less is on its way to it, before anything is lost. A path that is long costs nothing.
func TestFlightOfSlowPeer(t *testing.T) {
	const qps, room = 4, 64
	for _, c := range []struct {
		path, then int64 // one way; the timeout is 1,049 us
		want       int
	}{{10 * us, 135 * us, room / 2}, {10 * us, 160 * us, room / 4}, {200 * us, 200 * us, room / 2},
		{200 * us, 350 * us, room / 4}, {500 * us, 500 * us, room / 2}} {
		p, as, _ := crowd(t, qps, room)
		for _, p.delay = range []int64{c.path, c.then} {
			for i, a := range as {
				a.post(a.write(0, i*64, 64))
			}
			p.run()
		}
		require.Equal(t, c.want, as[0].eng.FlightSize(as[0].peer().addr), c)
		require.Zero(t, as[0].eng.Counters().RetransmittedPkts)
	}
}

// A queue pair that has not measured the round trip takes that of others to the same address: its
// first packet, if it is lost, is sent again as soon as a later one would be.
func TestFirstLossProbeByOthersRoundTrip(t *testing.T) {
	slow := linkConfig{attr: func(_ *link, at *transport.QPAttr) { at.Timeout = 14 }}
	for _, c := range []struct {
		room    transport.Room
		atLeast int64
	}{{roomFor(64), transport.DefaultLossProbeNs}, {transport.Room{}, (4096 << 14) / 4}} {
		p := newPair(t, pairConfig{room: [2]transport.Room{c.room}})
		a, _ := p.connect(slow)
		a.post(a.write(0, 0, 64))
		p.run()
		b, _ := p.connect(slow)
		first := true
		p.onSend = func(f *flight) { f.lost, first = first, false }
		begin := p.now
		b.post(b.write(0, 0, 64))
		p.run()
		require.Len(t, b.poll(), 2)
		require.GreaterOrEqual(t, p.now-begin, c.atLeast)
		require.Less(t, p.now-begin, c.atLeast+100*us)
		n := b.eng.Counters()
		require.EqualValues(t, 1, n.LossProbes)
		require.Zero(t, n.Timeouts)
	}
}
