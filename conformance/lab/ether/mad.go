package ether

import (
	"encoding/binary"
	"fmt"
)

const (
	qpnGSI     = 1
	dethLen    = 8
	madLen     = 256
	madHeader  = 24
	madClass   = 1  // offsets in the MAD
	madAttr    = 16 // 16 bits
	classCM    = 7
	rejReason  = madHeader + 10 // 16 bits
	attrREJ    = 0x12
	attrFirst  = 0x10
	madTID     = 8  // 64 bits
	madTIDLow  = 12 // lower half of the transaction ID, which Linux counts
	madLocalID = madHeader
	madPeerID  = madHeader + 4
)

// cmNames are the messages of communication management, from attrFirst.
var cmNames = [...]string{"REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"}

// describeMAD tells what a datagram to the GSI says: the message, the sender's and the
// receiver's communication IDs, and why something is refused. It is empty for others.
func (p *Packet) describeMAD() string {
	b := p.Body()
	if p.QPN != qpnGSI || p.Opcode != OpUDSendOnly || len(b) < dethLen+madLen {
		return ""
	}
	m := b[dethLen:]
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(m[at:]) }
	attr := binary.BigEndian.Uint16(m[madAttr:])
	if i := int(attr) - attrFirst; m[madClass] == classCM && i >= 0 && i < len(cmNames) {
		s := fmt.Sprintf("%s tid=%#x %#x>%#x", cmNames[i], u32(madTIDLow), u32(madLocalID), u32(madPeerID))
		if attr == attrREJ {
			s += fmt.Sprintf(" reason=%d", binary.BigEndian.Uint16(m[rejReason:]))
		}
		return s
	}
	return fmt.Sprintf("MAD class=%#x attribute=%#x", m[madClass], attr)
}

// CM returns the attribute and the transaction ID of a message of communication management.
func (p *Packet) CM() (attr uint16, tid uint64, ok bool) {
	b := p.Body()
	if p.QPN != qpnGSI || p.Opcode != OpUDSendOnly || len(b) < dethLen+madLen || b[dethLen+madClass] != classCM {
		return 0, 0, false
	}
	m := b[dethLen:]
	return binary.BigEndian.Uint16(m[madAttr:]), binary.BigEndian.Uint64(m[madTID:]), true
}

// The messages of communication management that faults name.
const (
	CMREQ  = attrFirst
	CMREJ  = attrREJ
	CMREP  = 0x13
	CMRTU  = 0x14
	CMDREQ = 0x15
	CMDREP = 0x16
)

// SetRejectReason changes why a REJ refuses.
func (p *Packet) SetRejectReason(reason uint16) {
	if attr, _, ok := p.CM(); ok && attr == CMREJ {
		binary.BigEndian.PutUint16(p.Body()[dethLen+rejReason:], reason)
	}
}
