package mad

import (
	"encoding/binary"

	"github.com/goroce/goroce/ib"
)

// REQPrivateBytes is the length of the private data of a REQ. RDMA-CM takes the first 36 bytes for
// its own header ([CMAHeader]).
const REQPrivateBytes = 92

// TransportType is the transport service that a REQ asks for.
type TransportType uint8

// The transport services. XRC is an extended type: see REQ.ExtendedTransport.
const (
	TransportRC       TransportType = 0
	TransportUC       TransportType = 1
	TransportRD       TransportType = 2
	TransportExtended TransportType = 3
)

// REQ asks for a connection (IBTA 12.6.5). "Local" is the sender's side, "remote" the receiver's.
type REQ struct {
	LocalCommID CommID
	VendorID    uint32 // 24 bits, with [Header.Modifier] for enhanced connection establishment; otherwise 0
	ServiceID   ServiceID
	CAGUID      GUID
	QKey        ib.QKey
	QPN         ib.QPN
	// ResponderResources and InitiatorDepth are the limits of the sender: how many READs and
	// atomics it can serve, and how many it wants to have in flight.
	ResponderResources uint8
	InitiatorDepth     uint8
	LocalEECN          uint32 // 24 bits, reliable datagrams only
	RemoteEECN         uint32 // 24 bits, reliable datagrams only
	RemoteCMTimeout    ib.TimeoutCode
	Transport          TransportType
	FlowControl        bool // end-to-end flow control
	// StartingPSN is the first PSN that the sender of the REQ expects to
	// receive: the peer starts to send with it (seen with Linux).
	StartingPSN       ib.PSN
	LocalCMTimeout    ib.TimeoutCode
	RetryCount        uint8 // 3 bits
	PKey              ib.PKey
	MTU               ib.MTU
	RDCExists         bool
	RNRRetryCount     uint8 // 3 bits, 7: for ever
	MaxCMRetries      uint8 // 4 bits
	SRQ               bool
	ExtendedTransport uint8 // 3 bits, 1: XRC
	Primary           Path
	Alternate         Path // all zero: none
	Private           []byte
}

// Decode reads a REQ. Private aliases b.
func (m *REQ) Decode(b *Data) {
	be := binary.BigEndian
	m.LocalCommID = CommID(be.Uint32(b[0:]))
	m.VendorID = be.Uint32(b[4:]) & 0xFFFFFF
	m.ServiceID = ServiceID(be.Uint64(b[8:]))
	m.CAGUID = GUID(be.Uint64(b[16:]))
	m.QKey = ib.QKey(be.Uint32(b[28:]))
	m.QPN = ib.QPN(get24(b[32:]))
	m.ResponderResources = b[35]
	m.LocalEECN = get24(b[36:])
	m.InitiatorDepth = b[39]
	m.RemoteEECN = get24(b[40:])
	m.RemoteCMTimeout = ib.TimeoutCode(b[43] >> 3)
	m.Transport = TransportType(b[43] >> 1 & 3)
	m.FlowControl = b[43]&1 != 0
	m.StartingPSN = ib.PSN(get24(b[44:]))
	m.LocalCMTimeout = ib.TimeoutCode(b[47] >> 3)
	m.RetryCount = b[47] & 7
	m.PKey = ib.PKey(be.Uint16(b[48:]))
	m.MTU = ib.MTU(b[50] >> 4)
	m.RDCExists = b[50]&8 != 0
	m.RNRRetryCount = b[50] & 7
	m.MaxCMRetries = b[51] >> 4
	m.SRQ = b[51]&8 != 0
	m.ExtendedTransport = b[51] & 7
	m.Primary.decode((*[pathBytes]byte)(b[52:]))
	m.Alternate.decode((*[pathBytes]byte)(b[52+pathBytes:]))
	m.Private = b[140:]
}

func (m *REQ) check() error {
	c := checker{message: AttrREQ}
	c.bits("vendor ID", uint64(m.VendorID), 24)
	c.bits("QPN", uint64(m.QPN), 24)
	c.bits("local EECN", uint64(m.LocalEECN), 24)
	c.bits("remote EECN", uint64(m.RemoteEECN), 24)
	c.bits("remote CM timeout", uint64(m.RemoteCMTimeout), 5)
	c.bits("transport", uint64(m.Transport), 2)
	c.bits("starting PSN", uint64(m.StartingPSN), 24)
	c.bits("local CM timeout", uint64(m.LocalCMTimeout), 5)
	c.bits("retry count", uint64(m.RetryCount), 3)
	c.bits("MTU", uint64(m.MTU), 4)
	c.bits("RNR retry count", uint64(m.RNRRetryCount), 3)
	c.bits("max CM retries", uint64(m.MaxCMRetries), 4)
	c.bits("extended transport", uint64(m.ExtendedTransport), 3)
	c.path(&m.Primary)
	c.path(&m.Alternate)
	c.length("private data", m.Private, REQPrivateBytes)
	return c.result()
}

// Put writes a REQ; private data is filled up with zeros.
func (m *REQ) Put(b *Data) error {
	if err := m.check(); err != nil {
		return err
	}
	be := binary.BigEndian
	be.PutUint32(b[0:], uint32(m.LocalCommID))
	be.PutUint32(b[4:], m.VendorID)
	be.PutUint64(b[8:], uint64(m.ServiceID))
	be.PutUint64(b[16:], uint64(m.CAGUID))
	be.PutUint32(b[24:], 0)
	be.PutUint32(b[28:], uint32(m.QKey))
	put24(b[32:], uint32(m.QPN))
	b[35] = m.ResponderResources
	put24(b[36:], m.LocalEECN)
	b[39] = m.InitiatorDepth
	put24(b[40:], m.RemoteEECN)
	b[43] = byte(m.RemoteCMTimeout)<<3 | byte(m.Transport)<<1 | flag(m.FlowControl, 1)
	put24(b[44:], uint32(m.StartingPSN))
	b[47] = byte(m.LocalCMTimeout)<<3 | m.RetryCount
	be.PutUint16(b[48:], uint16(m.PKey))
	b[50] = byte(m.MTU)<<4 | flag(m.RDCExists, 8) | m.RNRRetryCount
	b[51] = m.MaxCMRetries<<4 | flag(m.SRQ, 8) | m.ExtendedTransport
	m.Primary.put((*[pathBytes]byte)(b[52:]))
	m.Alternate.put((*[pathBytes]byte)(b[52+pathBytes:]))
	putFill(b[140:], m.Private)
	return nil
}
