package mad

import (
	"encoding/binary"
	"fmt"

	"github.com/goroce/goroce/ib"
)

// Private data of the messages that resolve a service to a UD queue pair, in
// bytes. In a SIDR_REQ, RDMA-CM takes the first 36 for its own header.
const (
	SIDRReqPrivateBytes = 216
	SIDRRepPrivateBytes = 136
)

// SIDRReq asks for the queue pair of a datagram service (IBTA 12.11.1).
type SIDRReq struct {
	RequestID uint32
	PKey      ib.PKey
	ServiceID ServiceID
	Private   []byte
}

// Decode reads a SIDR_REQ. Private aliases b.
func (m *SIDRReq) Decode(b *Data) {
	m.RequestID = binary.BigEndian.Uint32(b[0:])
	m.PKey = ib.PKey(binary.BigEndian.Uint16(b[4:]))
	m.ServiceID = ServiceID(binary.BigEndian.Uint64(b[8:]))
	m.Private = b[16:]
}

// Put writes a SIDR_REQ; private data is filled up with zeros.
func (m *SIDRReq) Put(b *Data) error {
	c := checker{message: AttrSIDRReq}
	c.length("private data", m.Private, SIDRReqPrivateBytes)
	if c.err != nil {
		return c.err
	}
	binary.BigEndian.PutUint32(b[0:], m.RequestID)
	binary.BigEndian.PutUint16(b[4:], uint16(m.PKey))
	b[6], b[7] = 0, 0
	binary.BigEndian.PutUint64(b[8:], uint64(m.ServiceID))
	putFill(b[16:], m.Private)
	return nil
}

// SIDRStatus is the answer to a SIDR_REQ.
type SIDRStatus uint8

// The answers.
const (
	SIDRValid              SIDRStatus = 0
	SIDRUnsupportedService SIDRStatus = 1
	SIDRRejected           SIDRStatus = 2
	SIDRNoQP               SIDRStatus = 3
	SIDRRedirect           SIDRStatus = 4
	SIDRUnsupportedVersion SIDRStatus = 5
)

var sidrText = [...]string{
	"valid", "service ID not supported", "rejected by the service provider", "no QP available", "redirected",
	"class version not supported",
}

func (s SIDRStatus) String() string {
	if int(s) < len(sidrText) {
		return sidrText[s]
	}
	return fmt.Sprintf("SIDR status %d", uint8(s))
}

// SIDRRep answers a SIDR_REQ (IBTA 12.11.2).
type SIDRRep struct {
	RequestID uint32
	Status    SIDRStatus
	InfoLen   uint8  // valid bytes of Info
	VendorID  uint32 // 24 bits in two places, as in REQ
	QPN       ib.QPN
	ServiceID ServiceID
	QKey      ib.QKey
	Info      []byte // up to 72 bytes; 72 when decoded
	Private   []byte
}

// Decode reads a SIDR_REP. Info and Private alias b.
func (m *SIDRRep) Decode(b *Data) {
	be := binary.BigEndian
	m.RequestID = be.Uint32(b[0:])
	m.Status, m.InfoLen = SIDRStatus(b[4]), b[5]
	m.VendorID = uint32(be.Uint16(b[6:]))<<8 | uint32(b[11])
	m.QPN = ib.QPN(get24(b[8:]))
	m.ServiceID = ServiceID(be.Uint64(b[12:]))
	m.QKey = ib.QKey(be.Uint32(b[20:]))
	m.Info = b[24 : 24+InfoBytes : 24+InfoBytes]
	m.Private = b[24+InfoBytes:]
}

// Put writes a SIDR_REP; additional information and private data are filled up with zeros.
func (m *SIDRRep) Put(b *Data) error {
	c := checker{message: AttrSIDRRep}
	c.bits("vendor ID", uint64(m.VendorID), 24)
	c.bits("QPN", uint64(m.QPN), 24)
	c.length("additional information", m.Info, InfoBytes)
	c.length("private data", m.Private, SIDRRepPrivateBytes)
	if c.err != nil {
		return c.err
	}
	be := binary.BigEndian
	be.PutUint32(b[0:], m.RequestID)
	b[4], b[5] = byte(m.Status), m.InfoLen
	be.PutUint16(b[6:], uint16(m.VendorID>>8))
	put24(b[8:], uint32(m.QPN))
	b[11] = byte(m.VendorID)
	be.PutUint64(b[12:], uint64(m.ServiceID))
	be.PutUint32(b[20:], uint32(m.QKey))
	putFill(b[24:24+InfoBytes], m.Info)
	putFill(b[24+InfoBytes:], m.Private)
	return nil
}
