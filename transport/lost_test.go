package transport

import (
	"net/netip"
	"os"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/mem"
)

// The ways of a fault through whole devices are in package roce; here is what those do
// not tell apart.

// lostRegion registers memory that cannot be touched, at iova.
func lostRegion(t *testing.T, r *rig, iova uint64) *mem.Region {
	b, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_NONE, unix.MAP_ANONYMOUS|unix.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(b)) })
	return r.register(b, iova, mem.LocalWrite|allRemote)
}

func panicOnFault(t *testing.T) {
	before := debug.SetPanicOnFault(true)
	t.Cleanup(func() { debug.SetPanicOnFault(before) })
}

// A batch goes on behind the packet that met memory which is not there, and the NAK
// of that packet is sent.
func TestBatchGoesOnAfterFault(t *testing.T) {
	panicOnFault(t)
	r := newRig(t, rigOpts{rts: true})
	lost := lostRegion(t, r, 0x5000000)
	var batch []RxPacket
	for i := range 5 {
		p := pkt(ib.RCWriteOnly, rigPSN+ib.PSN(i), pattern(16, byte(i)))
		r.reth(0, 16)(&p)
		p.RETH.VA += uint64(16 * i)
		if i == 2 {
			p.RETH.RKey, p.RETH.VA = lost.RKey(), lost.IOVA()
		}
		batch = append(batch, RxPacket{Src: rigOther, Dst: rigSelf, HopLimit: 64, Data: encode(nil, &p)})
	}
	r.e.HandlePackets(r.now, batch)
	require.Equal(t, StateErr, r.qp.State())
	require.EqualValues(t, 5, r.e.Counters().RcvdPkts, "those behind were looked at")
	require.Equal(t, pattern(16, 1), r.mem.Bytes()[16:32])
	require.NotEqual(t, pattern(16, 3), r.mem.Bytes()[48:64], "but not executed")
	require.True(t, lost.Lost())
	require.EqualValues(t, 1, r.e.Counters().MemoryFaults)
	n := r.e.PollTransmit(r.now, r.tx[:])
	require.NotZero(t, n)
	var nak ib.Packet
	require.Equal(t, ib.DecodeOK, nak.Decode(append(r.tx[n-1].AppendTo(nil), 0, 0, 0, 0)))
	require.Equal(t, ib.NAKRemoteAccess, nak.AETH.Syndrome)
	require.EqualValues(t, rigPSN+2, nak.PSN)
}

// The member of a multicast group whose memory is lost does not keep the datagram from the others.
func TestGroupGoesOnAfterFault(t *testing.T) {
	panicOnFault(t)
	r := udRig(t)
	group := netip.MustParseAddr("239.1.2.3")
	first := r.qp
	lost := lostRegion(t, r, 0x5000000)
	require.NoError(t,
		first.PostRecv(&RecvWR{ID: 1, SGList: []SGE{{Addr: lost.IOVA(), Length: 100, LKey: lost.LKey()}}}))
	second, err := r.e.CreateQP(QPInitAttr{
		Type: ib.UD, PD: r.pd, SendCQ: r.cq, RecvCQ: r.cq, QPN: 0x22,
		Caps: QPCaps{MaxSendWR: 1, MaxRecvWR: 4, MaxRecvSGE: 1},
	})
	require.NoError(t, err)
	r.qp = second
	r.connect(rigOpts{typ: ib.UD})
	r.post(2, 100, 100)
	for _, qp := range []*QP{first, second} {
		require.NoError(t, qp.AttachMcast(ib.GIDFromAddr(group)))
	}
	p := pkt(ib.UDSendOnly, 5, pattern(7, 1))
	deth(&p)
	p.DestQP = ib.QPNMulticast
	r.e.HandlePackets(r.now, []RxPacket{{Src: rigOther, Dst: group, HopLimit: 1, Data: encode(nil, &p)}})
	wcs := r.wcs()
	require.Len(t, wcs, 2)
	require.Equal(t, WC{ID: 1, QPN: rigQPN, Status: WCLocalProtErr, VendorErr: uint32(mem.FaultMemory)}, wcs[0])
	require.EqualValues(t, 2, wcs[1].ID)
	require.Equal(t, WCSuccess, wcs[1].Status)
	require.Equal(t, StateErr, first.State())
	require.NotEqual(t, StateErr, second.State())
}

// A panic that is about anything but registered memory goes on.
func TestOtherPanicsGoOn(t *testing.T) {
	panicOnFault(t)
	r := newRig(t, rigOpts{rts: true})
	foreign, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_NONE, unix.MAP_ANONYMOUS|unix.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(foreign)) }()
	p := pkt(ib.RCSendOnly, rigPSN, nil)
	batch := []RxPacket{{Src: rigOther, Dst: rigSelf, HopLimit: 64, Data: encode(nil, &p)}}
	for name, f := range map[string]func(TraceEvent){
		"of the tracer": func(TraceEvent) { panic("tracer") },
		"nil pointer":   func(TraceEvent) { *(*int)(nil) = 1 },
		"other memory":  func(TraceEvent) { foreign[0] = 1 },
	} {
		r.e.cfg.Tracer = traceFunc(f)
		require.Panics(t, func() { r.e.HandlePackets(r.now, batch) }, name)
	}
	r.e.cfg.Tracer = nil
	require.Equal(t, StateRTS, r.qp.State())
	tx := TxPacket{SrcQP: rigQPN, NumFrags: 1, Frags: [MaxTxFrags][]byte{foreign}}
	require.False(t, r.e.TransmitFault(r.now, &tx, uint64(r.mem.IOVA())))
	require.Zero(t, r.e.Counters().MemoryFaults)
}

type traceFunc func(TraceEvent)

func (f traceFunc) Trace(e TraceEvent) { f(e) }
