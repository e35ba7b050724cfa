package transport

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

// A NAK or a timeout of a packet that is too long for the path ends the request that it
// belongs to. Short ones are sent again as ever, and so are long ones of which the
// link has said nothing since the peer last acknowledged something.
func TestTooLongForPath(t *testing.T) {
	for name, c := range map[string]struct {
		bytes       int
		tooLong     uint64
		want        WCStatus
		vendor      uint32
		unreachable int // the transmission of which the link could not send the packets
	}{
		"long":              {3000, 1, WCLocalLenErr, VendorPathMTU, 0},
		"short":             {100, 1, WCRetryExcErr, 0, 0},
		"long, not told":    {3000, 0, WCRetryExcErr, VendorPathMTU, 0},
		"least, not told":   {256, 0, WCRetryExcErr, 0, 0},
		"between, not told": {900, 0, WCRetryExcErr, 0, 0},
		"no way at first":   {100, 0, WCRetryExcErr, 0, 1},
		"no way at last":    {100, 0, WCRetryExcErr, VendorUnreachable, 4},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigOpts{mtu: ib.MTU1024, rts: true})
			qp := r.qp
			qp.attr.Timeout, qp.attr.RetryCnt = 1, 3
			qp.sq.retry.refill(&qp.attr)
			sent := 0
			transmit := func() {
				for r.e.PollTransmit(r.now, r.tx[:]) > 0 {
				}
				qp.path.TooLong += c.tooLong
				if sent++; sent == c.unreachable {
					qp.path.Unreachable++
				}
			}
			require.NoError(t, qp.PostSend(r.now, &SendWR{ID: 7, Opcode: WRWrite, SGList: []SGE{
				{Addr: rigVA, Length: uint32(c.bytes), LKey: r.mem.LKey()},
			}}))
			transmit()
			for qp.State() == StateRTS {
				at, ok := r.e.NextTimeout()
				require.True(t, ok)
				r.now = at
				r.e.HandleTimeout(r.now)
				transmit()
			}
			require.Equal(t, []WC{
				{ID: 7, QPN: rigQPN, Opcode: WCWrite, ByteLen: uint32(c.bytes), Status: c.want, VendorErr: c.vendor},
			}, r.wcs())
			want := uint64(4)
			if c.want == WCLocalLenErr {
				want = 1
			}
			require.Equal(t, want, r.e.Counters().Timeouts)
		})
	}
}

// What was too long before the peer acknowledged something is not held against the next
// packet that is lost.
func TestTooLongBefore(t *testing.T) {
	r := newRig(t, rigOpts{mtu: ib.MTU1024, rts: true})
	qp := r.qp
	qp.attr.Timeout, qp.attr.RetryCnt = 1, 3
	qp.sq.retry.refill(&qp.attr)
	post := func() {
		require.NoError(t, qp.PostSend(r.now,
			&SendWR{Opcode: WRWrite, SGList: []SGE{{Addr: rigVA, Length: 1024, LKey: r.mem.LKey()}}}))
		for r.e.PollTransmit(r.now, r.tx[:]) > 0 {
		}
	}
	post()
	qp.path.TooLong++
	ack := pkt(ib.RCAcknowledge, qp.sq.una, nil)
	ack.AETH.Syndrome = ib.ACKNoCredits
	r.rxFrom(&ack, &RxPacket{Src: rigOther, Dst: rigSelf})
	require.False(t, qp.InFlight())
	post()
	at, _ := r.e.NextTimeout()
	r.now = at
	r.e.HandleTimeout(r.now)
	require.Equal(t, StateRTS, qp.State())
}

// A READ whose responses are too long for the path is refused when the peer asks again.
func TestReadTooLongForPath(t *testing.T) {
	for name, c := range map[string]struct {
		bytes   int
		tooLong uint64
		refused bool
	}{"long": {700, 1, true}, "short": {200, 1, false}, "long, not told": {700, 0, false}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigOpts{mtu: ib.MTU1024, rts: true})
			p := pkt(ib.RCReadRequest, rigPSN, nil)
			r.reth(0, c.bytes)(&p)
			r.rxFrom(&p, &RxPacket{Src: rigOther, Dst: rigSelf})
			for r.e.PollTransmit(r.now, r.tx[:]) > 0 {
			}
			r.qp.path.TooLong += c.tooLong
			r.rxFrom(&p, &RxPacket{Src: rigOther, Dst: rigSelf})
			require.Equal(t, c.refused, r.qp.State() == StateErr)
			if !c.refused {
				return
			}
			require.Equal(t, 1, r.e.PollTransmit(r.now, r.tx[:]))
			var nak ib.Packet
			require.Equal(t, ib.DecodeOK, nak.Decode(append(r.tx[0].AppendTo(nil), 0, 0, 0, 0)))
			require.Equal(t, ib.NAKRemoteOperation, nak.AETH.Syndrome)
			require.EqualValues(t, rigPSN, nak.PSN)
		})
	}
}

// SetMTU bounds what comes new, and nothing else.
func TestSetMTU(t *testing.T) {
	r := newRig(t, rigOpts{mtu: ib.MTU4096, rts: true})
	r.e.SetMTU(ib.MTU1024)
	r.e.SetMTU(0)
	require.Equal(t, ib.MTU4096.Bytes(), r.qp.mtu)
	require.Equal(t, ib.MTU1024, r.e.mtu)
	r.e.SetMTU(ib.MTU4096)
	require.Equal(t, ib.MTU4096, r.e.mtu)
}
