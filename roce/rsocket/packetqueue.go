package rsocket

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// packetQueue is a UD queue pair at one of the addresses that a socket uses, with memory for its
// datagrams. The lock of the socket guards it.
type packetQueue struct {
	dev      *verbs.Device
	addr     netip.AddrPort // of the socket, as peers see it
	gidIndex int
	traffic  uint8

	pd  *verbs.PD
	cq  *verbs.CQ
	qp  *verbs.QP
	mem *verbs.MappedBuffer
	mr  *verbs.MR

	recvs int   // receive slots of mem, the first ones
	sends []int // free send slots
	most  int   // number of send slots
	mtu   int   // the longest datagram that fits a packet, header included
	wcs   [pollBatch]verbs.WC
}

// recvSlotBytes has room for anything that a peer may send, so that no peer can send too much.
const recvSlotBytes = ib.GRHBytes + 4096

// newPacketQueue makes a queue pair at a local address of a device, and posts its receives.
func newPacketQueue(d *verbs.Device, addr netip.AddrPort, cfg *PacketConfig,
	onEvent func(*verbs.CQ)) (q *packetQueue, err error) {
	index := slices.Index(d.GIDs(), ib.GIDFromAddr(addr.Addr().WithZone("")))
	if index < 0 {
		return nil, roce.ErrAddrNotLocal
	}
	q = &packetQueue{
		dev: d, addr: addr, gidIndex: index, traffic: cfg.TrafficClass,
		recvs: cfg.RecvQueue, most: cfg.SendQueue, mtu: min(d.Port().ActiveMTU.Bytes(), slotBytes),
	}
	if err = q.allocate(onEvent); err != nil {
		return nil, errors.Join(err, q.release())
	}
	return q, nil
}

func (q *packetQueue) allocate(onEvent func(*verbs.CQ)) (err error) {
	if q.pd, err = q.dev.AllocPD(); err != nil {
		return err
	}
	if q.cq, err = q.dev.CreateCQ(q.recvs+q.most,
		&verbs.CQOptions{Vector: access.NextVector(q.dev), OnEvent: onEvent}); err != nil {
		return err
	}
	if q.mem, q.mr, err = q.pd.AllocBuffer(q.recvs*recvSlotBytes+q.most*slotBytes, verbs.LocalWrite); err != nil {
		return err
	}
	if q.qp, err = q.pd.CreateQP(verbs.QPInitAttr{
		Type: verbs.UD, SendCQ: q.cq,
		Caps: verbs.QPCaps{MaxSendWR: q.most, MaxRecvWR: q.recvs, MaxSendSGE: 1, MaxRecvSGE: 1},
	}); err != nil {
		return err
	}
	if err = q.qp.Activate(rdmacm.UDQKey); err != nil {
		return err
	}
	for i := range q.recvs {
		if err = q.receive(i); err != nil {
			return err
		}
	}
	for i := range q.most {
		q.sends = append(q.sends, i)
	}
	return nil
}

// release frees everything. It ignores the errors of a closed device.
func (q *packetQueue) release() error {
	var errs []error
	keep := func(err error) {
		if err != nil && !errors.Is(err, roce.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if q.qp != nil {
		keep(q.qp.Close())
	}
	if q.cq != nil {
		keep(q.cq.Close())
	}
	if q.mr != nil {
		keep(q.mr.Close())
	}
	if q.mem != nil {
		keep(q.mem.Close())
	}
	if q.pd != nil {
		keep(q.pd.Close())
	}
	return errors.Join(errs...)
}

// way makes an address handle for a peer.
func (q *packetQueue) way(to netip.Addr) (*verbs.AH, error) {
	return q.pd.CreateAH(verbs.AddressVector{
		DGID: ib.GIDFromAddr(to.WithZone("")), SGIDIndex: q.gidIndex, TrafficClass: q.traffic,
	})
}

// The ID of a work request is its slot; those of sends have sendBit.
const sendBit = 1 << 32

// slot returns the memory of a receive slot.
func (q *packetQueue) slot(i int) []byte {
	return q.mem.Bytes()[i*recvSlotBytes:][:recvSlotBytes:recvSlotBytes]
}

// receive posts a receive slot.
func (q *packetQueue) receive(i int) error {
	return q.qp.PostRecv(&verbs.RecvWR{ID: uint64(i), SGList: []verbs.SGE{q.mr.SGE(i*recvSlotBytes, recvSlotBytes)}})
}

// fits reports whether a datagram of n bytes fits a packet.
func (q *packetQueue) fits(n int) bool { return n+q.header() <= q.mtu }

func (q *packetQueue) header() int {
	if q.addr.Addr().Is4() {
		return datagramHeader4
	}
	return datagramHeader6
}

// send sends a datagram that fits to a known peer. A slot is free.
func (q *packetQueue) send(p *packetPeer, data []byte) error {
	i := q.sends[len(q.sends)-1]
	at := q.recvs*recvSlotBytes + i*slotBytes
	b := append(appendDatagramHeader(q.mem.Bytes()[at:at:at+slotBytes], q.addr), data...)
	err := q.qp.PostSend(&verbs.SendWR{
		ID: sendBit | uint64(i), Opcode: verbs.WRSend, Flags: verbs.SendSignaled,
		SGList: []verbs.SGE{q.mr.SGE(at, len(b))}, AH: p.ah, RemoteQPN: p.qpn, RemoteQKey: rdmacm.UDQKey,
	})
	if err == nil {
		q.sends = q.sends[:len(q.sends)-1]
	}
	return err
}

// poll handles available completions: arrived gets the slots of receives, and their lengths with
// GRH.
func (q *packetQueue) poll(arrived func(slot, n int) error) error {
	for {
		n, err := q.cq.Poll(q.wcs[:])
		if err != nil || n == 0 {
			return err
		}
		for i := range q.wcs[:n] {
			wc := &q.wcs[i]
			switch {
			case wc.ID&sendBit != 0:
				q.sends = append(q.sends, int(wc.ID&^sendBit))
			case wc.Status == verbs.WCFlushErr: // the queue pair is over, and with it the device
				return roce.ErrClosed
			case wc.Status != verbs.WCSuccess:
				err = q.receive(int(wc.ID))
			default:
				err = arrived(int(wc.ID), int(wc.ByteLen))
			}
			if err != nil {
				return err
			}
		}
	}
}
