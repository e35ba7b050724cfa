package transport_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/transport"
)

// Unreliable transports over a bad wire: messages may be lost, but what is
// received is whole and right and, on a UC wire that only loses, in order.
// (UC takes up at any first packet, so that a late message is a message.)
//
// A failure prints its seed: go test -run TestUnreliableSwarm -seed N
func TestUnreliableSwarm(t *testing.T) {
	var sent, received int
	n := seeds.Run(t, seeds.Fewer(150), func(t *testing.T, seed uint64) {
		s, r := runUnreliable(t, seed)
		sent, received = sent+s, received+r
	})
	if n >= 20 {
		require.Greater(t, received, sent/4, "of %d", sent)
		require.Less(t, received, sent)
	}
}

func runUnreliable(t *testing.T, seed uint64) (sent, received int) {
	rng := rand.New(rand.NewPCG(seed, 0xdead))
	typ := []ib.Transport{ib.UC, ib.UD}[rng.IntN(2)]
	mtu := ib.MTU(1 + rng.IntN(4))
	p := newPair(t, pairConfig{mtu: mtu, v6: rng.IntN(2) == 0, seed: seed})
	p.logging = false
	a, b := p.connect(linkConfig{typ: typ, attr: func(l *link, at *transport.QPAttr) {
		at.PathMTU = mtu
		at.SQPSN = ib.PSN(ib.PSNMask - uint32(seed%50))
		at.RQPSN = at.SQPSN
	}})
	loss, dup, jitter := rng.Float64()*0.3, rng.Float64()*0.3, rng.Int64N(5*us)+1
	if seed%2 == 0 {
		dup, jitter = 0, 1
	}
	p.onSend = func(f *flight) {
		f.lost = rng.Float64() < loss
		if rng.Float64() < dup {
			f.copies = 1
		}
		if rng.IntN(5) == 0 {
			f.at += rng.Int64N(jitter)
		}
	}
	var ah *transport.AH
	grh := 0
	limit := 8000
	if typ == ib.UD {
		var err error
		ah, err = a.eng.CreateAH(a.pd, transport.AddressVector{DGID: ib.GIDFromAddr(b.addr)})
		require.NoError(t, err)
		defer func() { require.NoError(t, ah.Destroy()) }()
		grh, limit = 40, mtu.Bytes()
	}
	const slot = 8192 + 64
	a.fill(0, 64<<10, seed)
	type msg struct{ at, n int }
	var msgs []msg
	next, done := 0, map[uint32]bool{}
	check := func() {
		for _, wc := range b.poll() {
			require.Equal(t, transport.WCSuccess, wc.Status)
			require.NotZero(t, wc.Flags&transport.WCWithImm)
			i := int(wc.Imm)
			require.Less(t, i, len(msgs), "a message that was never sent")
			require.EqualValues(t, grh+msgs[i].n, wc.ByteLen)
			at := int(wc.ID)%8*slot + grh
			require.True(t, bytes.Equal(a.buf[msgs[i].at:][:msgs[i].n], b.buf[at:][:msgs[i].n]),
				"message %d is damaged", i)
			if typ == ib.UC && dup == 0 {
				require.GreaterOrEqual(t, i, next, "out of order or twice")
				next = i + 1
			}
			if !done[wc.Imm] {
				received++
			}
			done[wc.Imm] = true
			b.recv(wc.ID, int(wc.ID)%8*slot, 8192+40)
		}
		for _, wc := range a.poll() {
			require.Equal(t, transport.WCSuccess, wc.Status)
		}
	}
	for i := range 8 {
		b.recv(uint64(i), i*slot, 8192+40)
	}
	for i := range 60 {
		m := msg{rng.IntN(32 << 10), rng.IntN(limit + 1)}
		msgs = append(msgs, m)
		wr := a.send(m.at, m.n)
		wr.Opcode, wr.Imm = transport.WRSendImm, uint32(i)
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, b.qp.Number(), 0x11111111
		a.post(wr)
		for range rng.IntN(6) {
			p.step(p.now + second)
		}
		check()
	}
	p.run()
	check()
	require.Equal(t, transport.StateRTS, a.qp.State())
	require.Equal(t, transport.StateRTS, b.qp.State())
	return len(msgs), received
}

// UC WRITEs over a bad wire change only what they name.
func TestUnreliableWrites(t *testing.T) {
	p := newPair(t, pairConfig{})
	a, b := p.connect(linkConfig{typ: ib.UC})
	rng := rand.New(rand.NewPCG(5, 5))
	p.onSend = func(f *flight) { f.lost = rng.IntN(5) == 0 }
	for i := range 4096 {
		binary.BigEndian.PutUint32(a.buf[4*i:], uint32(i))
	}
	for range 500 {
		n := 4 * rng.IntN(1000)
		at := 4 * rng.IntN(4096-n/4)
		a.post(a.write(at, at, n))
		p.run()
		require.Len(t, a.poll(), 1)
	}
	written := 0
	for i := range 4096 {
		switch v := binary.BigEndian.Uint32(b.buf[4*i:]); v {
		case uint32(i):
			written++
		case 0:
		default:
			t.Fatalf("word %d is %d", i, v)
		}
	}
	require.Greater(t, written, 4000)
	require.True(t, bytes.Equal(b.buf[4*4096:], make([]byte, bufBytes-4*4096)))
	require.NotZero(t, b.eng.Counters().DropUCGap)
}
