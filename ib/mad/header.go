package mad

import (
	"encoding/binary"
	"fmt"
)

// Lengths in bytes.
const (
	Bytes       = 256 // of a datagram; QP 1 carries no other size
	HeaderBytes = 24
	DataBytes   = Bytes - HeaderBytes
)

// Data is what follows the header of a datagram.
type Data = [DataBytes]byte

// Class is a management class (IBTA 13.4.4).
type Class uint8

// Classes that may show up on QP 1.
const (
	ClassSubnAdm  Class = 0x03
	ClassPerf     Class = 0x04
	ClassBM       Class = 0x05
	ClassDevMgt   Class = 0x06
	ClassCM       Class = 0x07
	ClassSNMP     Class = 0x08
	ClassVersion1       = 1 // of most classes
	ClassVersion2       = 2 // of communication management and subnet administration
)

// Method is the method of a datagram (IBTA 13.4.5).
type Method uint8

// The methods.
const (
	MethodGet         Method = 0x01
	MethodSet         Method = 0x02
	MethodSend        Method = 0x03 // all communication management messages
	MethodTrap        Method = 0x05
	MethodReport      Method = 0x06
	MethodTrapRepress Method = 0x07
	MethodGetResp     Method = 0x81
	MethodReportResp  Method = 0x86
)

// Response reports whether the method is an answer, which must not be answered.
func (m Method) Response() bool { return m&0x80 != 0 || m == MethodTrapRepress }

// Status is the result in an answer (IBTA 13.4.7).
type Status uint16

// The statuses.
const (
	StatusOK               Status = 0
	StatusBusy             Status = 1 << 0
	StatusRedirect         Status = 1 << 1
	StatusBadVersion       Status = 1 << 2
	StatusBadMethod        Status = 2 << 2
	StatusBadMethodAttr    Status = 3 << 2
	StatusBadAttrValue     Status = 7 << 2
	statusInvalidFieldMask Status = 7 << 2
)

// InvalidField returns the part of a status that says what was invalid:
// StatusBadVersion to StatusBadAttrValue, or 0.
func (s Status) InvalidField() Status { return s & statusInvalidFieldMask }

// Attribute is the subject of a datagram; its values belong to the class.
type Attribute uint16

// The attributes of [ClassCM]: its messages.
const (
	AttrREQ     Attribute = 0x0010
	AttrMRA     Attribute = 0x0011
	AttrREJ     Attribute = 0x0012
	AttrREP     Attribute = 0x0013
	AttrRTU     Attribute = 0x0014
	AttrDREQ    Attribute = 0x0015
	AttrDREP    Attribute = 0x0016
	AttrSIDRReq Attribute = 0x0017
	AttrSIDRRep Attribute = 0x0018
	AttrLAP     Attribute = 0x0019
	AttrAPR     Attribute = 0x001A

	AttrClassPortInfo Attribute = 0x0001 // of every class
)

var attrNames = [...]string{"REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"}

// String names the messages of communication management.
func (a Attribute) String() string {
	if i := int(a) - int(AttrREQ); i >= 0 && i < len(attrNames) {
		return attrNames[i]
	}
	return fmt.Sprintf("attribute 0x%04x", uint16(a))
}

// TID is a transaction ID. Answers repeat it; to the receiver it means nothing.
type TID uint64

// Header is the header common to all datagrams (IBTA 13.4.3).
type Header struct {
	BaseVersion   uint8 // 1
	Class         Class
	ClassVersion  uint8
	Method        Method
	Status        Status
	ClassSpecific uint16
	TID           TID
	Attribute     Attribute
	Reserved      uint16
	Modifier      uint32
}

// CMHeader returns the header of a communication management message.
func CMHeader(a Attribute, tid TID) Header {
	return Header{
		BaseVersion: 1, Class: ClassCM, ClassVersion: ClassVersion2, Method: MethodSend, TID: tid, Attribute: a,
	}
}

// Error says why bytes are not a datagram. It is a small integer so that it
// can be counted without allocating.
type Error uint8

// The reasons of a refusal.
const (
	OK             Error = iota
	ErrLength            // not 256 bytes
	ErrBaseVersion       // base version is not 1
)

var errorText = [...]string{"ok", "datagram is not 256 bytes long", "base version is not 1"}

func (e Error) Error() string {
	if int(e) < len(errorText) {
		return "mad: " + errorText[e]
	}
	return "mad: error"
}

// Parse decodes the header of b, the payload of a UD packet, into h and
// returns the data behind it, which aliases b.
func Parse(b []byte, h *Header) (*Data, Error) {
	if len(b) != Bytes {
		return nil, ErrLength
	}
	if b[0] != 1 {
		return nil, ErrBaseVersion
	}
	be := binary.BigEndian
	*h = Header{
		BaseVersion: b[0], Class: Class(b[1]), ClassVersion: b[2], Method: Method(b[3]),
		Status: Status(be.Uint16(b[4:])), ClassSpecific: be.Uint16(b[6:]), TID: TID(be.Uint64(b[8:])),
		Attribute: Attribute(be.Uint16(b[16:])), Reserved: be.Uint16(b[18:]), Modifier: be.Uint32(b[20:]),
	}
	return (*Data)(b[HeaderBytes:]), OK
}

// Put writes the header to b and returns the data after it, for the message's own Put; both alias
// b. The content of the data stays.
func (h *Header) Put(b *[Bytes]byte) *Data {
	be := binary.BigEndian
	b[0], b[1], b[2], b[3] = h.BaseVersion, byte(h.Class), h.ClassVersion, byte(h.Method)
	be.PutUint16(b[4:], uint16(h.Status))
	be.PutUint16(b[6:], h.ClassSpecific)
	be.PutUint64(b[8:], uint64(h.TID))
	be.PutUint16(b[16:], uint16(h.Attribute))
	be.PutUint16(b[18:], h.Reserved)
	be.PutUint32(b[20:], h.Modifier)
	return (*Data)(b[HeaderBytes:])
}
