package transport

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/mem"
)

// attacker is a peer that means harm and knows the QP's addresses, numbers and
// most of the time a key. It counts what must never go wrong: bytes outside of
// what was granted, and receive requests that complete other than once.
type attacker struct {
	r        *rig
	o        rigOpts
	secret   *mem.Region // same PD, no remote rights
	readonly *mem.Region
	posted   uint64
	seen     map[uint64]bool
}

func newAttacker(t testing.TB, typ ib.Transport) *attacker {
	o := rigOpts{typ: typ, mtu: ib.MTU256, psn: ib.PSNMask - 20, access: allRemote, depth: 2, rts: true, cqe: 1 << 10}
	h := &attacker{r: newRig(t, o), o: o, seen: map[uint64]bool{}}
	h.secret = h.r.register(pattern(4096, 1), rigVA, mem.LocalWrite)
	h.readonly = h.r.register(pattern(4096, 2), rigVA, mem.LocalWrite|mem.RemoteRead)
	return h
}

// packet makes a packet for the QP from random choices, often a legal one.
func (h *attacker) packet(rng *rand.Rand) []byte {
	r := h.r
	class := map[ib.Transport]ib.Opcode{ib.RC: 0, ib.UC: 0x20, ib.UD: 0x60}[h.o.typ]
	op := class + ib.Opcode(rng.IntN(32))
	switch k := rng.IntN(50); {
	case k == 0:
		op = ib.Opcode(rng.Uint32())
	case k < 20:
		sends := []ib.Opcode{ib.RCSendOnly, ib.RCSendOnlyImm, ib.RCSendFirst, ib.RCSendMiddle, ib.RCSendLast}
		if h.o.typ == ib.UD {
			sends = sends[:2]
		}
		op = class + sends[rng.IntN(len(sends))]
	}
	n := []int{0, 1, 7, 8, 255, 256, 257, 300, 4096}[rng.IntN(9)]
	if rng.IntN(3) > 0 {
		switch op.Info().Payload {
		case ib.PayloadNone:
			n = 0
		case ib.PayloadFull:
			n = 256
		case ib.PayloadEight:
			n = 8
		}
	}
	psn := r.qp.resp.expectedPSN()
	if rng.IntN(3) == 0 {
		psn = psn.Add(rng.IntN(12) - 8)
	}
	p := pkt(op, psn, pattern(n, 9))
	p.AckReq = rng.IntN(2) == 0
	p.Solicited = rng.IntN(2) == 0
	p.DETH = ib.DETH{QKey: rigQKey, SrcQP: 5}
	off := []int{0, 8, 4096, rigLen - 8, rigLen - 256, rigLen, -8, -rigVA}[rng.IntN(8)]
	size := []uint32{0, 1, 8, uint32(n), 256, 600, 5000, 1 << 31, 1<<32 - 1}[rng.IntN(9)]
	r.reth(off, 0)(&p)
	p.RETH.Len = size
	r.atomic(off, rng.Uint64(), rng.Uint64())(&p)
	keys := []ib.RKey{0, ib.RKey(h.secret.LKey()), h.readonly.RKey(), r.mem.RKey() ^ 1, ib.RKey(r.recv.LKey())}
	if rng.IntN(4) == 0 {
		k := keys[rng.IntN(len(keys))]
		p.RETH.RKey, p.Atomic.RKey = k, k
	}
	p.IETH = keys[rng.IntN(len(keys))]
	p.FETH = ib.FETH(rng.IntN(64))
	if rng.IntN(20) == 0 {
		p.Pad = uint8(rng.IntN(4))
	}
	b := encode(nil, &p)
	if op.Known() && rng.IntN(30) == 0 {
		b = b[:rng.IntN(len(b)+1)]
	}
	return b
}

// check holds the invariants.
func (h *attacker) check() {
	r := h.r
	r.canaries()
	for _, wc := range r.wcs() {
		require.False(r.t, h.seen[wc.ID], "request %d completed twice", wc.ID)
		h.seen[wc.ID] = true
	}
	r.events()
}

// reconnect brings a QP in ERR back, after everything posted has completed.
func (h *attacker) reconnect() {
	r := h.r
	if r.qp.State() != StateErr {
		require.NoError(r.t, r.qp.Modify(r.now, QPAttr{State: StateErr}, AttrState))
	}
	h.check()
	require.Len(r.t, h.seen, int(h.posted), "every request completes once")
	r.poll()
	r.advance(DefaultFatalLingerNs)
	require.Empty(r.t, r.poll())
	require.NoError(r.t, r.qp.Modify(r.now, QPAttr{State: StateReset}, AttrState))
	r.connect(h.o)
}

func (h *attacker) step(rng *rand.Rand) {
	r := h.r
	switch k := rng.IntN(100); {
	case k < 70:
		rx := RxPacket{Src: rigOther, Dst: rigSelf, HopLimit: 64, TrafficClass: uint8(rng.IntN(4)), Data: h.packet(rng)}
		r.e.HandlePacket(r.now, &rx)
	case k < 80:
		if r.qp.State() != StateErr && r.qp.rq.used < r.qp.rq.capacity {
			n := []int{0, 48, 300, 600, 4096}[rng.IntN(5)]
			if h.o.typ == ib.UD {
				n = max(n, 48) // what no datagram fits would stay at the head for ever
			}
			r.post(h.posted, n, 1024)
			h.posted++
		}
	case k < 90:
		r.e.PollTransmit(r.now, r.tx[:1+rng.IntN(40)])
	case k < 94:
		r.advance(int64(rng.IntN(5e6)))
	case k < 95:
		require.NoError(r.t, r.mem.Deregister(nil))
		r.mem = r.register(r.raw[rigCanary:rigCanary+rigLen], rigVA, mem.LocalWrite|allRemote|mem.MWBind)
	default:
		h.check()
	}
	if r.qp.State() == StateErr && rng.IntN(8) == 0 {
		h.reconnect()
	}
}

func TestResponderUnderAttack(t *testing.T) {
	types := []ib.Transport{ib.RC, ib.UC, ib.UD}
	recvs := map[ib.Transport]uint64{}
	n := seeds.Run(t, seeds.Fewer(18), func(t *testing.T, seed uint64) {
		typ := types[seed%3]
		h := newAttacker(t, typ)
		rng := rand.New(rand.NewPCG(seed, 2))
		for range 5000 {
			h.step(rng)
		}
		h.reconnect()
		require.Equal(t, pattern(4096, 1), h.secret.Bytes())
		require.Equal(t, pattern(4096, 2), h.readonly.Bytes())
		recvs[typ] += h.r.e.Counters().RDMARecvs
	})
	if n < 18 {
		return
	}
	for _, typ := range types {
		require.Greater(t, recvs[typ], uint64(50), "some of it is legal on %v", typ)
	}
}

// FuzzResponder runs arbitrary packets against a QP of each type: the input is a
// sequence of packets, each with its length in front.
func FuzzResponder(f *testing.F) {
	for i, typ := range []ib.Transport{ib.RC, ib.UC, ib.UD} {
		h := newAttacker(f, typ)
		rng := rand.New(rand.NewPCG(7, uint64(i)))
		in := []byte{byte(i)}
		for range 6 {
			b := h.packet(rng)
			in = append(binary.BigEndian.AppendUint16(in, uint16(len(b))), b...)
		}
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 {
			return
		}
		h := newAttacker(t, []ib.Transport{ib.RC, ib.UC, ib.UD}[in[0]%3])
		for range 4 {
			h.r.post(h.posted, 600, 300)
			h.posted++
		}
		for in = in[1:]; len(in) >= 2; {
			n := min(int(binary.BigEndian.Uint16(in)), len(in)-2)
			h.r.e.HandlePacket(h.r.now, &RxPacket{Src: rigOther, Dst: rigSelf, Data: in[2 : 2+n]})
			in = in[2+n:]
			h.r.e.PollTransmit(h.r.now, h.r.tx[:3])
			h.check()
		}
		h.reconnect()
		require.Equal(t, pattern(4096, 1), h.secret.Bytes())
		require.Equal(t, pattern(4096, 2), h.readonly.Bytes())
	})
}
