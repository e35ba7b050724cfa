package mad

import (
	"encoding/binary"

	"github.com/goroce/goroce/ib"
)

// Private data of the messages that complete a connection, in bytes.
const (
	REPPrivateBytes = 196
	RTUPrivateBytes = 224
	MRAPrivateBytes = 222
)

// REP accepts a REQ (IBTA 12.6.8).
type REP struct {
	LocalCommID        CommID // of the sender of the REP
	RemoteCommID       CommID
	QKey               ib.QKey
	QPN                ib.QPN
	VendorID           uint32 // 24 bits in three places, as in REQ
	EECN               uint32 // 24 bits, reliable datagrams only
	StartingPSN        ib.PSN // as in REQ
	ResponderResources uint8
	InitiatorDepth     uint8
	TargetAckDelay     ib.TimeoutCode
	Failover           uint8 // 2 bits, 0: alternate path accepted or none, 1 and 2: refused
	FlowControl        bool
	RNRRetryCount      uint8 // 3 bits
	SRQ                bool
	CAGUID             GUID
	Private            []byte
}

// Decode reads a REP. Private aliases b.
func (m *REP) Decode(b *Data) {
	be := binary.BigEndian
	m.LocalCommID = CommID(be.Uint32(b[0:]))
	m.RemoteCommID = CommID(be.Uint32(b[4:]))
	m.QKey = ib.QKey(be.Uint32(b[8:]))
	m.QPN = ib.QPN(get24(b[12:]))
	m.VendorID = uint32(b[15])<<16 | uint32(b[19])<<8 | uint32(b[23])
	m.EECN = get24(b[16:])
	m.StartingPSN = ib.PSN(get24(b[20:]))
	m.ResponderResources = b[24]
	m.InitiatorDepth = b[25]
	m.TargetAckDelay = ib.TimeoutCode(b[26] >> 3)
	m.Failover = b[26] >> 1 & 3
	m.FlowControl = b[26]&1 != 0
	m.RNRRetryCount = b[27] >> 5
	m.SRQ = b[27]&0x10 != 0
	m.CAGUID = GUID(be.Uint64(b[28:]))
	m.Private = b[36:]
}

func (m *REP) check() error {
	c := checker{message: AttrREP}
	c.bits("QPN", uint64(m.QPN), 24)
	c.bits("vendor ID", uint64(m.VendorID), 24)
	c.bits("EECN", uint64(m.EECN), 24)
	c.bits("starting PSN", uint64(m.StartingPSN), 24)
	c.bits("target ACK delay", uint64(m.TargetAckDelay), 5)
	c.bits("failover accepted", uint64(m.Failover), 2)
	c.bits("RNR retry count", uint64(m.RNRRetryCount), 3)
	c.length("private data", m.Private, REPPrivateBytes)
	return c.result()
}

// Put writes a REP; private data is filled up with zeros.
func (m *REP) Put(b *Data) error {
	if err := m.check(); err != nil {
		return err
	}
	be := binary.BigEndian
	be.PutUint32(b[0:], uint32(m.LocalCommID))
	be.PutUint32(b[4:], uint32(m.RemoteCommID))
	be.PutUint32(b[8:], uint32(m.QKey))
	put24(b[12:], uint32(m.QPN))
	put24(b[16:], m.EECN)
	put24(b[20:], uint32(m.StartingPSN))
	b[15], b[19], b[23] = byte(m.VendorID>>16), byte(m.VendorID>>8), byte(m.VendorID)
	b[24], b[25] = m.ResponderResources, m.InitiatorDepth
	b[26] = byte(m.TargetAckDelay)<<3 | m.Failover<<1 | flag(m.FlowControl, 1)
	b[27] = m.RNRRetryCount<<5 | flag(m.SRQ, 0x10)
	be.PutUint64(b[28:], uint64(m.CAGUID))
	putFill(b[36:], m.Private)
	return nil
}

// RTU completes a connection: its sender is ready to use it (IBTA 12.6.9).
type RTU struct {
	LocalCommID  CommID
	RemoteCommID CommID
	Private      []byte
}

// Decode reads an RTU. Private aliases b.
func (m *RTU) Decode(b *Data) {
	m.LocalCommID, m.RemoteCommID = commIDs(b)
	m.Private = b[8:]
}

// Put writes an RTU; private data is filled up with zeros.
func (m *RTU) Put(b *Data) error {
	return putPrivate(b, AttrRTU, m.LocalCommID, m.RemoteCommID, m.Private, RTUPrivateBytes)
}

// putPrivate writes a message of only the IDs and at most "most" bytes of private data.
func putPrivate(b *Data, of Attribute, local, remote CommID, private []byte, most int) error {
	c := checker{message: of}
	c.length("private data", private, most)
	if c.err != nil {
		return c.err
	}
	putCommIDs(b, local, remote)
	putFill(b[8:], private)
	return nil
}

// MRA says that a message has arrived and that its answer will take long (IBTA 12.6.6).
type MRA struct {
	LocalCommID    CommID
	RemoteCommID   CommID
	Acknowledged   Subject        // REQ, REP or LAP
	ServiceTimeout ib.TimeoutCode // to wait before the next retry
	Private        []byte
}

// Decode reads an MRA. Private aliases b.
func (m *MRA) Decode(b *Data) {
	m.LocalCommID, m.RemoteCommID = commIDs(b)
	m.Acknowledged = Subject(b[8] >> 6)
	m.ServiceTimeout = ib.TimeoutCode(b[9] >> 3)
	m.Private = b[10:]
}

// Put writes an MRA; private data is filled up with zeros.
func (m *MRA) Put(b *Data) error {
	c := checker{message: AttrMRA}
	c.bits("message", uint64(m.Acknowledged), 2)
	c.bits("service timeout", uint64(m.ServiceTimeout), 5)
	c.length("private data", m.Private, MRAPrivateBytes)
	if c.err != nil {
		return c.err
	}
	putCommIDs(b, m.LocalCommID, m.RemoteCommID)
	b[8] = byte(m.Acknowledged) << 6
	b[9] = byte(m.ServiceTimeout) << 3
	putFill(b[10:], m.Private)
	return nil
}

// Subject is the message that a REJ or an MRA answers.
type Subject uint8

// The subjects.
const (
	SubjectREQ   Subject = 0
	SubjectREP   Subject = 1
	SubjectOther Subject = 2 // REJ: no message, such as a timeout
	SubjectLAP   Subject = 2 // MRA
)

// commIDs reads the two IDs with which most messages start.
func commIDs(b *Data) (local, remote CommID) {
	return CommID(binary.BigEndian.Uint32(b[0:])), CommID(binary.BigEndian.Uint32(b[4:]))
}

func putCommIDs(b *Data, local, remote CommID) {
	binary.BigEndian.PutUint32(b[0:], uint32(local))
	binary.BigEndian.PutUint32(b[4:], uint32(remote))
}
