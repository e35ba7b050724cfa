package transport_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/transport"
)

// blindGoodput runs 100 WRITEs of 256 KiB over a wire of 10 Gb/s, while somebody
// who knows addresses and QP number, but not the PSN, sends a WRITE of nothing
// every so many ns. It returns how long that took, and the forged packets.
func blindGoodput(t *testing.T, every int64) (ns int64, forged int) {
	const total = 100
	p := newPair(t, pairConfig{mtu: ib.MTU1024})
	p.logging = false
	p.delay = 20 * us
	a, b := p.connect(linkConfig{attr: func(l *link, at *transport.QPAttr) { at.Timeout = 14 }})
	d := &puppet{p, b, a.end, a} // makes packets of a to b
	rng := rand.New(rand.NewPCG(1, 2))
	busy := int64(0)
	p.onSend = func(f *flight) {
		if f.from == a.end {
			busy = max(busy, p.now) + int64(len(f.data)+60)*8/10
			f.at = busy + p.delay
		}
	}
	posted, done := 0, 0
	next := every
	for done < total {
		require.Less(t, p.now, int64(10*second))
		for posted < total && posted-done < 8 {
			a.post(a.write(0, 0, 1<<18))
			posted++
		}
		p.pump()
		if at, _, ok := p.next(); every != 0 && (!ok || at > next) {
			p.now = max(p.now, next)
			data := d.packet(ib.RCWriteOnly, 0, nil, func(pk *ib.Packet) { pk.PSN = ib.PSN(rng.Uint32() & ib.PSNMask) })
			b.eng.HandlePacket(p.now, &transport.RxPacket{Src: a.addr, Dst: b.addr, HopLimit: 64, Data: data})
			forged++
			next += every
			continue
		}
		require.True(t, p.step(1<<62))
		for _, wc := range a.poll() {
			require.Equal(t, transport.WCSuccess, wc.Status)
			done++
		}
	}
	return p.now, forged
}

// Forged packets with random PSNs do not slow a connection down: those that are
// far ahead get no NAK, and hardly any is near.
func TestAttackBlindNAK(t *testing.T) {
	seeds.Long(t)
	alone, _ := blindGoodput(t, 0)
	for _, every := range []int64{200 * us, 50 * us, 10 * us} {
		ns, forged := blindGoodput(t, every)
		t.Logf("%d forged packets, one every %d us: %d%% of the goodput", forged, every/us, 100*alone/ns)
		require.Greater(t, forged, int(alone/every)-2)
		require.GreaterOrEqual(t, float64(alone)/float64(ns), 0.9)
	}
}

// A READ of which only the first packet of each answer arrives, whatever is
// asked for, is repeated so often that its answers are cut. It still ends well,
// though all that is left is a packet a time.
func TestReadRepeatedForEver(t *testing.T) {
	p := newPair(t, pairConfig{})
	p.logging = false
	a, b := p.connect(linkConfig{})
	src := b.fill(0, 100<<10, 1)
	p.onSend = func(f *flight) {
		if f.from == b.end && f.pkt.Opcode != ib.RCReadRespOnly && f.pkt.Opcode != ib.RCReadRespFirst {
			f.lost = true
		}
	}
	a.post(a.read(0, 0, 100<<10))
	p.run()
	a.wantWC("1 success")
	require.Equal(t, src, a.buf[:100<<10])
	c := b.eng.Counters()
	require.NotZero(t, c.CutReads)
	require.Less(t, c.SentPkts, uint64(100*(1+16)+100))
}

// A connected peer that repeats a long READ.
func TestAttackReadRepeats(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	d.logging = false
	rx := transport.RxPacket{Src: d.b.addr, Dst: d.a.addr, HopLimit: 64}
	rx.Data = d.packet(ib.RCReadRequest, 0, nil, reth(d.a.base, d.a.region.RKey(), 1<<20))
	const n = 1024 // packets of the answer
	for range 5000 {
		d.a.eng.HandlePacket(d.now, &rx)
	}
	d.pump()
	d.drain()
	require.EqualValues(t, n, d.a.eng.Counters().SentPkts, "what is to come is not doubled")
	for range 5000 {
		d.a.eng.HandlePacket(d.now, &rx)
		d.pump()
		d.drain()
	}
	require.EqualValues(t, n*(1+16)+1, d.a.eng.Counters().SentPkts)
}
