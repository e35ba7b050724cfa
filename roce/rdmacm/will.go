package rdmacm

import (
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/verbs"
)

// WillBytes is the length of a last will; see [WillKeeper].
const WillBytes = ib.BTHBytes + ib.DETHBytes + mad.Bytes

// WillKeeper keeps the last wills of the connections of a device. A process that is killed says
// nothing to its peers, and one that only receives waits for ever. So the keeper puts what there is
// to say where something finds it that outlives the process, and sends it then: to UDP port 4791,
// with the ICRC behind it. A device without a keeper leaves it to the next process at its address,
// if there is one.
//
// Its functions are called with the lock of the device held. They must not block, nor call anything
// of the device.
type WillKeeper struct {
	// Put adds the will of a connection: packet goes from src to dst, and is the UDP payload, a
	// disconnect request, without its ICRC, which depends on the port that it is sent from. id is
	// not that of any other will of the device. packet is the keeper's only during the call.
	Put func(id uint32, src, dst netip.Addr, packet *[WillBytes]byte)
	// Drop takes the will back: the connection has ended, or the device has closed.
	Drop func(id uint32)
}

// KeepWills gives a device a keeper, for good. It is told at once of the connections that there
// are. Further calls do nothing.
func KeepWills(d *verbs.Device, k WillKeeper) error {
	if k.Put == nil || k.Drop == nil {
		return argError("keep wills", "WillKeeper", "has no Put, or no Drop")
	}
	s := access.Shard(d)
	if s == nil {
		return access.ErrZero
	}
	if err := s.Lock(); err != nil {
		return err
	}
	defer s.Unlock()
	a, err := agentOf(s)
	if err != nil {
		return own(d, err)
	}
	if a.wills.Put != nil {
		return nil
	}
	a.wills = k
	a.book.close()
	a.book = nil
	a.core.KeepWills()
	a.handWills()
	return nil
}

// handWills tells the keeper what has changed, or notes it in the book.
func (a *agent) handWills() {
	for w, ok := a.core.PollWill(); ok; w, ok = a.core.PollWill() {
		switch {
		case a.book != nil:
			a.book.note(&w)
			continue
		case !w.Live:
			a.wills.Drop(uint32(w.ID))
			continue
		}
		var b [WillBytes]byte
		p := ib.Packet{
			BTH:  ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.PKeyDefault, DestQP: ib.QPNGSI},
			DETH: ib.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QPNGSI},
		}
		n := p.PutHeaders(b[:])
		copy(b[n:], w.Data[:])
		a.wills.Put(uint32(w.ID), w.Src, w.Dst, &b)
	}
}
