package slots

import (
	"encoding/binary"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/unix"
)

// Requests is the result of Steer for a packet that names no slot: a request to queue pair 1.
const Requests = Count

// Offsets in a packet to queue pair 1, from the BTH on.
const (
	classAt     = ib.BTHBytes + ib.DETHBytes + 1
	attributeAt = ib.BTHBytes + ib.DETHBytes + 16
	// dataAt is the offset of the sender's communication ID, and peerAt that of the receiver's.
	dataAt = ib.BTHBytes + ib.DETHBytes + mad.HeaderBytes
	peerAt = dataAt + 4
	// dreqAt is the offset of the queue pair number of a DREQ.
	dreqAt = peerAt + 4

	qpnShift = 24 - Bits
	idShift  = 32 - Bits
)

// Steer returns the slot that a packet is for, or Requests. It does what the program of the group
// does, for packets that arrive at the wrong socket: in one datagram with a packet for another
// slot.
func Steer(b []byte) int {
	be := binary.BigEndian
	if len(b) < 8 {
		return 0
	}
	qpn := ib.QPN(be.Uint32(b[4:])) & ib.QPNMask
	if qpn != ib.QPNGSI {
		return int(qpn >> qpnShift)
	}
	if len(b) < peerAt+4 {
		return 0
	}
	if mad.Class(b[classAt]) != mad.ClassCM {
		return Requests
	}
	id := be.Uint32(b[peerAt:])
	switch mad.Attribute(be.Uint16(b[attributeAt:])) {
	case mad.AttrREQ, mad.AttrSIDRReq:
		return Requests
	case mad.AttrDREQ:
		if len(b) < dreqAt+4 {
			return 0
		}
		if ib.QPN(be.Uint32(b[dreqAt:])>>8) == mad.NobodysQPN {
			return Requests // so that some device answers when none has the slot
		}
	case mad.AttrSIDRRep:
		id = be.Uint32(b[dataAt:])
	}
	if id == 0 {
		return Requests // a REJ from a sender that does not know our ID
	}
	return int(id >> idShift)
}

// service returns the service that a request is for. ok is false for messages that are not about a
// service.
func service(b []byte) (s mad.ServiceID, ok bool) {
	if len(b) != dataAt+mad.DataBytes+ib.ICRCBytes || mad.Class(b[classAt]) != mad.ClassCM {
		return 0, false
	}
	data := (*mad.Data)(b[dataAt:])
	switch mad.Attribute(binary.BigEndian.Uint16(b[attributeAt:])) {
	case mad.AttrREQ:
		var m mad.REQ
		m.Decode(data)
		return m.ServiceID, true
	case mad.AttrSIDRReq:
		var m mad.SIDRReq
		m.Decode(data)
		return m.ServiceID, true
	}
	return 0, false
}

// Manages reports whether a packet is a message to queue pair 1.
func Manages(b []byte) bool {
	return len(b) >= 8 && ib.QPN(binary.BigEndian.Uint32(b[4:]))&ib.QPNMask == ib.QPNGSI
}

// Asked returns the slot of the connection that a packet asks about, if Steer has returned Requests
// for the packet. ok is false for other packets.
func Asked(b []byte) (slot int, ok bool) {
	if len(b) < dreqAt+4 || !mad.Asks(b[ib.BTHBytes+ib.DETHBytes:]) {
		return 0, false
	}
	return int(binary.BigEndian.Uint32(b[peerAt:]) >> idShift), true
}

// program chooses the socket of the group: the slot, or Count for requests. A load beyond the end
// of the datagram ends it with 0. An index without a socket, as while the group is being made,
// leaves the choice to a hash; sockets without a lease drop what they get.
func program() []unix.SockFilter {
	const (
		ldw = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		ldh = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS
		ldb = unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
		jeq = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ja  = unix.BPF_JMP | unix.BPF_JA
		and = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
		rsh = unix.BPF_ALU | unix.BPF_RSH | unix.BPF_K
		ret = unix.BPF_RET
	)
	return []unix.SockFilter{
		{Code: ldw, K: 4},
		{Code: and, K: uint32(ib.QPNMask)},
		{Code: jeq, K: uint32(ib.QPNGSI), Jt: 2},
		{Code: rsh, K: qpnShift},
		{Code: ret | unix.BPF_A},

		{Code: ldw, K: peerAt}, // first, so that the program ends here for short ones
		{Code: ldb, K: classAt},
		{Code: jeq, K: uint32(mad.ClassCM), Jf: 13},
		{Code: ldh, K: attributeAt},
		{Code: jeq, K: uint32(mad.AttrREQ), Jt: 11},
		{Code: jeq, K: uint32(mad.AttrSIDRReq), Jt: 10},
		{Code: jeq, K: uint32(mad.AttrSIDRRep), Jt: 6},
		{Code: jeq, K: uint32(mad.AttrDREQ), Jf: 3},
		{Code: ldw, K: dreqAt},
		{Code: rsh, K: 8},
		{Code: jeq, K: uint32(mad.NobodysQPN), Jt: 5},
		{Code: ldw, K: peerAt},
		{Code: ja, K: 1},
		{Code: ldw, K: dataAt},
		{Code: jeq, K: 0, Jt: 1},
		{Code: ja, K: 1},
		{Code: ret, K: Requests},
		{Code: rsh, K: idShift},
		{Code: ret | unix.BPF_A},
	}
}
