package transport_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport"
)

// Attacks on the engine, after ReDMArk (USENIX Security 2021). The attacker can put any packet on
// the wire; where it says so, it even knows addresses, QP numbers or PSNs.

// untouched checks that no byte of the victim's memory changed.
func untouched(d *puppet) {
	d.t.Helper()
	require.True(d.t, bytes.Equal(d.a.buf, make([]byte, bufBytes)), "memory was written")
	d.a.checkGuards()
}

// Keys, QP numbers and PSNs drawn by different engines have nothing in common,
// and those of one engine no order.
func TestAttackPrediction(t *testing.T) {
	p := newPair(t, pairConfig{})
	var qpns, rkeys []uint32
	for range 64 {
		a, _ := p.connect(linkConfig{})
		qpns = append(qpns, uint32(a.qp.Number()))
		r, err := a.mem.Register(a.pd, mem.RegionAttr{Bytes: make([]byte, 8), Access: allAccess})
		require.NoError(t, err)
		rkeys = append(rkeys, uint32(r.RKey()))
	}
	for _, seq := range [][]uint32{qpns, rkeys} {
		steps := map[uint32]int{}
		for i := 1; i < len(seq); i++ {
			steps[seq[i]-seq[i-1]]++
		}
		for step, n := range steps {
			require.LessOrEqual(t, n, 2, "step %d", step)
		}
	}
}

// Guessing rkeys on a live connection: the first wrong guess ends it.
func TestAttackGuessKeys(t *testing.T) {
	seeds.Long(t)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		d := newPuppet(t, pairConfig{}, linkConfig{})
		key := ib.RKey(rng.Uint32())
		for i := range 100 {
			d.send(ib.RCWriteOnly, i, []byte("evil"), reth(d.a.base, key+ib.RKey(i), 4))
		}
		d.want("a> ACKNOWLEDGE 0 NAK remote access error msn=0")
		d.wantState(transport.StateErr)
		untouched(d)
	}
}

// A packet with everything right but its source address, without knowing the
// QP number, or without knowing the PSN.
func TestAttackBlindInjection(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	data := d.packet(ib.RCWriteOnly, 0, []byte("evil"))
	for i := range 50 {
		d.sendFrom(transport.RxPacket{Src: d.b.addr.Next(), Dst: d.a.addr, Data: data})
		d.send(ib.RCWriteOnly, 0, []byte("evil"), func(p *ib.Packet) { p.DestQP += ib.QPN(1 + i) })
		d.send(ib.RCWriteOnly, 1000*(i+1), []byte("evil"))
		d.send(ib.RCWriteOnly, -1000*(i+1), []byte("evil"))
	}
	untouched(d)
	c := d.a.eng.Counters()
	require.EqualValues(t, 50, c.DropAddress)
	require.EqualValues(t, 50, c.DropNoQP)
	require.EqualValues(t, 50, c.OutOfSeqRequest)
	require.EqualValues(t, 50, c.DuplicateRequest)
	// The connection works on.
	d.sendRaw(data)
	require.Equal(t, "evil", string(d.a.buf[:4]))
}

// Replayed packets, any number of times: nothing is executed twice.
func TestAttackReplay(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	d.a.recv(1, 0x1000, 64)
	d.a.recv(2, 0x2000, 64)
	packets := [][]byte{
		d.packet(ib.RCWriteOnly, 0, []byte("original")),
		d.packet(ib.RCSendOnly, 1, []byte("message")),
		d.packet(ib.RCFetchAdd, 2, nil, func(p *ib.Packet) { p.Atomic.VA += 64; p.Atomic.SwapAdd = 1 }),
		d.packet(ib.RCReadRequest, 3, nil, reth(d.a.base, d.a.region.RKey(), 8)),
	}
	for _, data := range packets {
		d.sendRaw(data)
	}
	copy(d.a.buf, "local")
	rng := rand.New(rand.NewPCG(2, 2))
	for range 1000 {
		d.sendRaw(packets[rng.IntN(len(packets))])
	}
	require.Equal(t, "localnal", string(d.a.buf[:8]))
	require.EqualValues(t, 1, binary.NativeEndian.Uint64(d.a.buf[64:]))
	require.Zero(t, d.a.buf[0x2000])
	d.a.wantWC("1 success")
	d.wantState(transport.StateRTS)
}

// A key of another protection domain, on a QP of this one.
func TestAttackForeignPD(t *testing.T) {
	for _, op := range []ib.Opcode{ib.RCWriteOnly, ib.RCReadRequest, ib.RCFetchAdd, ib.RCCompareSwap,
		ib.RCAtomicWrite, ib.RCFlush} {
		d := newPuppet(t, pairConfig{}, linkConfig{})
		pd, err := d.a.mem.AllocPD()
		require.NoError(t, err)
		secret := bytes.Repeat([]byte{7}, 64)
		r, err := d.a.mem.Register(pd, mem.RegionAttr{Bytes: secret, IOVA: 0x1000, IOVASet: true, Access: allAccess})
		require.NoError(t, err)
		var data []byte
		if p := op.Info().Payload; p != ib.PayloadNone {
			data = make([]byte, 8)
		}
		d.send(op, 0, data, reth(0x1000, r.RKey(), 8), func(p *ib.Packet) {
			p.Atomic.VA, p.Atomic.RKey = 0x1000, r.RKey()
			p.FETH = ib.FlushGlobalVisibility
		})
		d.want("a> ACKNOWLEDGE 0 NAK remote access error msn=0")
		require.Equal(t, bytes.Repeat([]byte{7}, 64), secret)
	}
}

// Use after deregistration, also between the packets of one message, and after
// the window through which it came was invalidated.
func TestAttackUseAfterRevocation(t *testing.T) {
	revoke := map[string]func(t *testing.T, d *puppet) (ib.RKey, uint64, []byte, func()){
		"deregister": func(t *testing.T, d *puppet) (ib.RKey, uint64, []byte, func()) {
			buf := make([]byte, 4096)
			r, err := d.a.mem.Register(d.a.pd, mem.RegionAttr{Bytes: buf, Access: allAccess})
			require.NoError(t, err)
			return r.RKey(), r.IOVA(), buf, func() { require.NoError(t, r.Deregister(nil)) }
		},
		"invalidate window": func(t *testing.T, d *puppet) (ib.RKey, uint64, []byte, func()) {
			w, err := d.a.mem.AllocMW(d.a.pd, mem.Type2B)
			require.NoError(t, err)
			key := mem.NextRKey(w.RKey())
			d.a.post(transport.SendWR{Opcode: transport.WRBindMW, Bind: transport.BindMW{
				MW: w, Region: d.a.region, NewRKey: key, Addr: d.a.base, Length: 4096,
				Access: mem.RemoteWrite | mem.RemoteRead}})
			d.pump()
			return key, d.a.base, d.a.buf[:4096], func() {
				d.a.post(transport.SendWR{Opcode: transport.WRLocalInv, InvalidateKey: key})
				d.pump()
			}
		},
	}
	for name, setup := range revoke {
		t.Run(name, func(t *testing.T) {
			// Before the message.
			d := newPuppet(t, pairConfig{}, linkConfig{})
			key, va, buf, kill := setup(t, d)
			kill()
			d.send(ib.RCWriteOnly, 0, []byte("evil"), reth(va, key, 4))
			d.want("a> ACKNOWLEDGE 0 NAK remote access error msn=0")
			require.Zero(t, buf[0])
			// Amid a WRITE.
			d = newPuppet(t, pairConfig{}, linkConfig{})
			key, va, buf, kill = setup(t, d)
			d.send(ib.RCWriteFirst, 0, bytes.Repeat([]byte{1}, 1024), reth(va, key, 3072))
			kill()
			d.send(ib.RCWriteMiddle, 1, bytes.Repeat([]byte{2}, 1024))
			d.want("a> ACKNOWLEDGE 1 NAK remote access error msn=0")
			require.EqualValues(t, 1, buf[1023])
			require.Zero(t, buf[1024])
			// A duplicate READ.
			d = newPuppet(t, pairConfig{}, linkConfig{})
			key, va, _, kill = setup(t, d)
			d.send(ib.RCReadRequest, 0, nil, reth(va, key, 8))
			d.want("a> READ RESPONSE ONLY 0 8B ACK msn=1")
			kill()
			d.send(ib.RCReadRequest, 0, nil, reth(va, key, 8))
			for _, f := range d.log {
				require.NotEqual(t, ib.RCReadRespOnly, f.pkt.Opcode)
			}
		})
	}
}

// Forged acknowledgements by one who knows all but the PSN do nothing; by one
// who knows that too they can end the connection, and no more.
func TestAttackForgedResponses(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	d := newPuppet(t, pairConfig{}, linkConfig{})
	d.a.post(d.a.write(0, 0, 8))
	d.a.post(d.a.read(0x100, 0, 3000))
	d.pump()
	d.drain()
	d.log = nil
	ops := []ib.Opcode{ib.RCAcknowledge, ib.RCReadRespFirst, ib.RCReadRespMiddle, ib.RCReadRespLast,
		ib.RCReadRespOnly, ib.RCAtomicAck}
	for range 3000 {
		op := ops[rng.IntN(len(ops))]
		var data []byte
		if n := op.Info().Payload; n != ib.PayloadNone {
			data = bytes.Repeat([]byte{0xEE}, 1024)
		}
		psn := 4 + rng.IntN(1<<23-8)
		if rng.IntN(2) == 0 {
			psn = -1 - rng.IntN(1<<23-8)
		}
		s := []ib.Syndrome{ib.ACKNoCredits, ib.RNRNAK(31), ib.NAKSequence, ib.NAKInvalidRequest,
			ib.NAKRemoteAccess, 0x40, 0xFF}[rng.IntN(7)]
		d.send(op, psn, data, syndrome(s), msn(ib.MSN(rng.Uint32()&ib.PSNMask)))
	}
	require.Empty(t, d.a.poll())
	d.want("")
	untouched(d)
	require.EqualValues(t, 3000, d.a.eng.Counters().DropBadResponse)
	d.send(ib.RCAcknowledge, 0, nil)
	for i, op := range []ib.Opcode{ib.RCReadRespFirst, ib.RCReadRespMiddle, ib.RCReadRespLast} {
		d.send(op, 1+i, bytes.Repeat([]byte{1}, min(1024, 3000-1024*i)))
	}
	d.a.wantWC("1 success", "2 success")

	// More data than was asked for is not written anywhere.
	for _, n := range []int{1028, 4096} {
		d := newPuppet(t, pairConfig{mtu: ib.MTU4096}, linkConfig{})
		d.a.post(d.a.read(0x100, 0, 1000))
		d.pump()
		d.send(ib.RCReadRespOnly, 0, bytes.Repeat([]byte{1}, n))
		require.True(t, bytes.Equal(d.a.buf[0x100+1000:], make([]byte, bufBytes-0x100-1000)))
		for _, wc := range d.a.poll() {
			require.Equal(t, transport.WCBadRespErr, wc.Status)
		}
	}
}

// Somebody knows addresses, QP number and the PSNs that are outstanding, and guesses the MSN. An
// acknowledgement or a NAK that completes, repeats or ends something is one of 65 MSNs at most, a
// NAK that ends the connection one of 2^24.
func TestAttackGuessedMSN(t *testing.T) {
	const window = 64
	open := func() *puppet {
		d := newPuppet(t, pairConfig{}, linkConfig{})
		for i := range 4 { // the peer shows how it counts
			d.a.post(d.a.write(0, 0, 8))
			d.pump()
			d.send(ib.RCAcknowledge, i, nil, msn(ib.MSN(i+1)))
		}
		for range window {
			d.a.post(d.a.write(0, 0, 8))
		}
		d.pump()
		d.drain()
		require.Len(t, d.a.poll(), 4)
		d.log = nil
		return d
	}
	rng := rand.New(rand.NewPCG(4, 4))
	d := open()
	tries := 0
	for i := range window {
		for range 100 {
			n := ib.MSN(4 + window + 1 + rng.Uint32N(1<<24-window-1))
			s := []ib.Syndrome{ib.ACKNoCredits, ib.RNRNAK(1), ib.NAKSequence, ib.NAKInvalidRequest,
				ib.NAKRemoteAccess, ib.NAKRemoteOperation, 0x80}[rng.IntN(7)]
			d.send(ib.RCAcknowledge, 4+i, nil, syndrome(s), msn(n&ib.PSNMask))
			// Of what has no MSN nothing is of the right kind.
			d.send(ib.RCReadRespMiddle, 5+i%(window-1), bytes.Repeat([]byte{1}, 1024))
			tries += 2
		}
		for n := range ib.MSN(window + 1) {
			if n != ib.MSN(i) {
				d.send(ib.RCAcknowledge, 4+i, nil, syndrome(ib.NAKRemoteAccess), msn(4+n))
				tries++
			}
		}
	}
	require.Empty(t, d.a.poll())
	d.want("")
	d.wantState(transport.StateRTS)
	require.EqualValues(t, tries, d.a.eng.Counters().DropBadResponse)
	// The peer is believed.
	d.send(ib.RCAcknowledge, 4+2, nil, msn(4+3))
	require.Len(t, d.a.poll(), 3)
	d.send(ib.RCAcknowledge, 4+3, nil, syndrome(ib.NAKRemoteAccess), msn(4+3))
	d.wantState(transport.StateErr)
}

// Data of a READ, which has no MSN, completes no SEND before it.
func TestAttackGuessedData(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	for range 4 {
		d.a.post(d.a.write(0, 0, 8))
	}
	d.a.post(d.a.read(0x100, 0, 4096))
	d.pump()
	for i := range 4 {
		d.send(ib.RCReadRespMiddle, 4+i, bytes.Repeat([]byte{1}, 1024))
	}
	require.Empty(t, d.a.poll())
	untouched(d)
	d.wantState(transport.StateRTS)
}

// A flood of CNPs or of marked packets changes nothing but counters, and is
// not answered with a flood.
func TestAttackFloods(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	for range 10000 {
		d.send(ib.CNP, 0, nil, func(p *ib.Packet) { p.BECN = true; p.PSN = 0 })
	}
	d.want("")
	require.EqualValues(t, 10000, d.a.eng.Counters().CNPsHandled)
	data := d.packet(ib.RCWriteOnly, 0, make([]byte, 8))
	for range 1000 {
		d.sendFrom(transport.RxPacket{Src: d.b.addr, Dst: d.a.addr, TrafficClass: 3, Data: data})
		d.now += 1 * us
	}
	cnps := 0
	for _, f := range d.log {
		if f.pkt.Opcode == ib.CNP {
			cnps++
		}
	}
	require.LessOrEqual(t, cnps, 1000/50+1)
	require.EqualValues(t, cnps, d.a.eng.Counters().CNPsSent)
	require.EqualValues(t, 1000, d.a.eng.Counters().CEMarkedPkts)
	d.log = nil
	// Requests far ahead: one NAK, not one each.
	for i := range 10000 {
		d.send(ib.RCWriteOnly, 100+i, make([]byte, 8))
	}
	require.Len(t, d.log, 1)
}

// READ requests and atomics in any number do not grow memory without bound,
// and what cannot be kept is refused, not forgotten.
func TestAttackReadFlood(t *testing.T) {
	d := newPuppet(t, pairConfig{}, linkConfig{})
	rx := transport.RxPacket{Src: d.b.addr, Dst: d.a.addr}
	for i := range 5000 {
		rx.Data = d.packet(ib.RCReadRequest, i, nil, reth(d.a.base, d.a.region.RKey(), 1))
		d.a.eng.HandlePacket(d.now, &rx) // the engine does not get to answer
	}
	d.pump()
	require.LessOrEqual(t, len(d.log), 5000)
	for i, f := range d.log {
		require.Equal(t, i, f.rel, "in order, none left out before a NAK")
		if f.pkt.Opcode == ib.RCAcknowledge {
			break
		}
	}
}
