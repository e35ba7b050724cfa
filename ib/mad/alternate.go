package mad

import (
	"encoding/binary"

	"github.com/goroce/goroce/ib"
)

// Private data of the messages about alternate paths, in bytes.
const (
	LAPPrivateBytes = 168
	APRPrivateBytes = 148
)

// LAP asks to load an alternate path (IBTA 12.8.1). RoCE peers do not use it.
type LAP struct {
	LocalCommID     CommID
	RemoteCommID    CommID
	RemoteQPN       ib.QPN
	RemoteCMTimeout ib.TimeoutCode
	Alternate       Path
	Private         []byte
}

// Decode reads a LAP. Private aliases b.
func (m *LAP) Decode(b *Data) {
	m.LocalCommID, m.RemoteCommID = commIDs(b)
	m.RemoteQPN = ib.QPN(get24(b[12:]))
	m.RemoteCMTimeout = ib.TimeoutCode(b[15] >> 3)
	m.Alternate = Path{ // in another order than in REQ
		LocalLID: binary.BigEndian.Uint16(b[20:]), RemoteLID: binary.BigEndian.Uint16(b[22:]),
		LocalGID: ib.GID(b[24:40]), RemoteGID: ib.GID(b[40:56]),
		FlowLabel: get24(b[56:]) >> 4, TrafficClass: b[59], HopLimit: b[60], PacketRate: b[61] & 0x3F,
		SL: b[62] >> 4, SubnetLocal: b[62]&0x08 != 0, AckTimeout: ib.TimeoutCode(b[63] >> 3),
	}
	m.Private = b[64:]
}

// Put writes a LAP; private data is filled up with zeros.
func (m *LAP) Put(b *Data) error {
	c := checker{message: AttrLAP}
	c.bits("remote QPN", uint64(m.RemoteQPN), 24)
	c.bits("remote CM timeout", uint64(m.RemoteCMTimeout), 5)
	c.path(&m.Alternate)
	c.length("private data", m.Private, LAPPrivateBytes)
	if c.err != nil {
		return c.err
	}
	p := &m.Alternate
	putCommIDs(b, m.LocalCommID, m.RemoteCommID)
	clear(b[8:12])
	put24(b[12:], uint32(m.RemoteQPN))
	b[15] = byte(m.RemoteCMTimeout) << 3
	clear(b[16:20])
	binary.BigEndian.PutUint16(b[20:], p.LocalLID)
	binary.BigEndian.PutUint16(b[22:], p.RemoteLID)
	copy(b[24:40], p.LocalGID[:])
	copy(b[40:56], p.RemoteGID[:])
	put24(b[56:], p.FlowLabel<<4)
	b[59], b[60], b[61] = p.TrafficClass, p.HopLimit, p.PacketRate
	b[62] = p.SL<<4 | flag(p.SubnetLocal, 0x08)
	b[63] = byte(p.AckTimeout) << 3
	putFill(b[64:], m.Private)
	return nil
}

// PathStatus is the answer to a LAP (IBTA 12.8.2.1).
type PathStatus uint8

// The answers.
const (
	PathLoaded             PathStatus = 0
	PathInvalidCommID      PathStatus = 1
	PathUnsupported        PathStatus = 2
	PathRejected           PathStatus = 3
	PathRedirect           PathStatus = 4
	PathDuplicate          PathStatus = 5
	PathQPNMismatch        PathStatus = 6
	PathInvalidLID         PathStatus = 7
	PathInvalidGID         PathStatus = 8
	PathInvalidFlow        PathStatus = 9
	PathInvalidTClass      PathStatus = 10
	PathInvalidHop         PathStatus = 11
	PathInvalidPacketRate  PathStatus = 12
	PathInvalidSL          PathStatus = 13
	PathClassVersionWrong  PathStatus = 14
	PathProposedUnsuitable PathStatus = 15
)

// APR answers a LAP (IBTA 12.8.2).
type APR struct {
	LocalCommID  CommID
	RemoteCommID CommID
	InfoLen      uint8 // valid bytes of Info
	Status       PathStatus
	Info         []byte // up to 72 bytes; 72 when decoded
	Private      []byte
}

// Decode reads an APR. Info and Private alias b.
func (m *APR) Decode(b *Data) {
	m.LocalCommID, m.RemoteCommID = commIDs(b)
	m.InfoLen, m.Status = b[8], PathStatus(b[9])
	m.Info = b[12 : 12+InfoBytes : 12+InfoBytes]
	m.Private = b[12+InfoBytes:]
}

// Put writes an APR; additional information and private data are filled up with zeros.
func (m *APR) Put(b *Data) error {
	c := checker{message: AttrAPR}
	c.length("additional information", m.Info, InfoBytes)
	c.length("private data", m.Private, APRPrivateBytes)
	if c.err != nil {
		return c.err
	}
	putCommIDs(b, m.LocalCommID, m.RemoteCommID)
	b[8], b[9], b[10], b[11] = m.InfoLen, byte(m.Status), 0, 0
	putFill(b[12:12+InfoBytes], m.Info)
	putFill(b[12+InfoBytes:], m.Private)
	return nil
}
