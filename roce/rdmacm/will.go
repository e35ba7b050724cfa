package rdmacm

import (
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
)

// willBytes is the length of a last will.
const willBytes = ib.BTHBytes + ib.DETHBytes + mad.Bytes

// willKeeper keeps the last wills of the connections of a device: see KeepWills.
type willKeeper struct {
	put  func(id uint32, src, dst netip.Addr, packet []byte)
	drop func(id uint32)
}

// KeepWills gives the device of a channel a keeper of last wills, for good. The keeper learns at
// once of the existing connections. Further calls do nothing.
//
// A process that is killed says nothing to its peers, and a peer that only receives would wait for
// ever. So the keeper stores each goodbye where something that outlives the process finds it, and
// sends it then: to UDP port 4791, with the ICRC appended. A device without a keeper leaves this to
// the next process at its address, if there is one.
//
// put adds the will of a connection: packet goes from src to dst, and is the UDP payload, a
// disconnect request, without its ICRC, which depends on the source port. id is unique among the
// wills of the device. The keeper may use packet only during the call. drop takes the will back:
// the connection has ended, or the device has closed. Both are called with the lock of the device
// held. They must not block, or call anything of the device.
func (w *channelCore) KeepWills(put func(id uint32, src, dst netip.Addr, packet []byte), drop func(id uint32)) error {
	s := w.s
	if err := s.Lock(); err != nil {
		return err
	}
	defer s.Unlock()
	a, err := agentOf(s)
	if err != nil {
		return own(w.d, err)
	}
	if a.wills.put != nil {
		return nil
	}
	a.wills = willKeeper{put, drop}
	a.book.close()
	a.book = nil
	a.core.KeepWills()
	a.handWills()
	return nil
}

// handWills reports changes to the keeper, or records them in the book.
func (a *agent) handWills() {
	for w, ok := a.core.PollWill(); ok; w, ok = a.core.PollWill() {
		switch {
		case a.book != nil:
			a.book.note(&w)
			continue
		case !w.Live:
			a.wills.drop(uint32(w.ID))
			continue
		}
		var b [willBytes]byte
		p := ib.Packet{
			BTH:  ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.PKeyDefault, DestQP: ib.QPNGSI},
			DETH: ib.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QPNGSI},
		}
		n := p.PutHeaders(b[:])
		copy(b[n:], w.Data[:])
		a.wills.put(uint32(w.ID), w.Src, w.Dst, b[:])
	}
}
