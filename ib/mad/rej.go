package mad

import (
	"encoding/binary"
	"fmt"
)

// InfoBytes is the room for additional information in REJ, APR and SIDR_REP.
const InfoBytes = 72

// REJPrivateBytes is the private data of a REJ.
const REJPrivateBytes = 148

// RejectReason says why a connection is refused or given up (IBTA 12.6.7.2).
type RejectReason uint16

// The reasons.
const (
	RejectNoQP                    RejectReason = 1
	RejectNoEEC                   RejectReason = 2
	RejectNoResources             RejectReason = 3
	RejectTimeout                 RejectReason = 4
	RejectUnsupported             RejectReason = 5
	RejectInvalidCommID           RejectReason = 6
	RejectInvalidCommInstance     RejectReason = 7
	RejectInvalidServiceID        RejectReason = 8 // nobody listens
	RejectInvalidTransport        RejectReason = 9
	RejectStaleConnection         RejectReason = 10
	RejectRDCMissing              RejectReason = 11
	RejectInvalidGID              RejectReason = 12
	RejectInvalidLID              RejectReason = 13
	RejectInvalidSL               RejectReason = 14
	RejectInvalidTrafficClass     RejectReason = 15
	RejectInvalidHopLimit         RejectReason = 16
	RejectInvalidPacketRate       RejectReason = 17
	RejectInvalidAltGID           RejectReason = 18
	RejectInvalidAltLID           RejectReason = 19
	RejectInvalidAltSL            RejectReason = 20
	RejectInvalidAltTrafficClass  RejectReason = 21
	RejectInvalidAltHopLimit      RejectReason = 22
	RejectInvalidAltPacketRate    RejectReason = 23
	RejectPortAndCMRedirect       RejectReason = 24
	RejectPortRedirect            RejectReason = 25
	RejectInvalidMTU              RejectReason = 26
	RejectInsufficientResources   RejectReason = 27 // responder resources
	RejectConsumer                RejectReason = 28 // the application's own no
	RejectInvalidRNRRetry         RejectReason = 29
	RejectDuplicateCommID         RejectReason = 30
	RejectInvalidClassVersion     RejectReason = 31
	RejectInvalidFlowLabel        RejectReason = 32
	RejectInvalidAltFlowLabel     RejectReason = 33
	RejectVendorOptionUnsupported RejectReason = 35
)

var rejectText = map[RejectReason]string{
	RejectNoQP:                    "no QP available",
	RejectNoEEC:                   "no EE context available",
	RejectNoResources:             "no resources available",
	RejectTimeout:                 "timeout",
	RejectUnsupported:             "unsupported request",
	RejectInvalidCommID:           "invalid communication ID",
	RejectInvalidCommInstance:     "invalid communication instance",
	RejectInvalidServiceID:        "invalid service ID",
	RejectInvalidTransport:        "invalid transport service type",
	RejectStaleConnection:         "stale connection",
	RejectRDCMissing:              "RDC does not exist",
	RejectInvalidGID:              "primary port GID refused",
	RejectInvalidLID:              "primary port LID refused",
	RejectInvalidSL:               "invalid primary SL",
	RejectInvalidTrafficClass:     "invalid primary traffic class",
	RejectInvalidHopLimit:         "invalid primary hop limit",
	RejectInvalidPacketRate:       "invalid primary packet rate",
	RejectInvalidAltGID:           "alternate port GID refused",
	RejectInvalidAltLID:           "alternate port LID refused",
	RejectInvalidAltSL:            "invalid alternate SL",
	RejectInvalidAltTrafficClass:  "invalid alternate traffic class",
	RejectInvalidAltHopLimit:      "invalid alternate hop limit",
	RejectInvalidAltPacketRate:    "invalid alternate packet rate",
	RejectPortAndCMRedirect:       "redirected to another port and CM",
	RejectPortRedirect:            "redirected to another port",
	RejectInvalidMTU:              "path MTU refused",
	RejectInsufficientResources:   "insufficient responder resources",
	RejectConsumer:                "rejected by the application",
	RejectInvalidRNRRetry:         "RNR retry count refused",
	RejectDuplicateCommID:         "duplicate local communication ID",
	RejectInvalidClassVersion:     "class version not supported",
	RejectInvalidFlowLabel:        "invalid primary flow label",
	RejectInvalidAltFlowLabel:     "invalid alternate flow label",
	RejectVendorOptionUnsupported: "vendor option not supported",
}

func (r RejectReason) String() string {
	if s, ok := rejectText[r]; ok {
		return s
	}
	return fmt.Sprintf("reject reason %d", uint16(r))
}

// REJ refuses a connection, or ends its setup (IBTA 12.6.7).
type REJ struct {
	LocalCommID  CommID // 0 if the sender had none yet
	RemoteCommID CommID
	Rejected     Subject
	Reason       RejectReason
	InfoLen      uint8  // valid bytes of Info, 7 bits; peers may claim more than there are
	Info         []byte // up to 72 bytes, what the reason wants: a GID, an MTU; 72 when decoded
	Private      []byte
}

// Decode reads a REJ. Info and Private alias b.
func (m *REJ) Decode(b *Data) {
	m.LocalCommID, m.RemoteCommID = commIDs(b)
	m.Rejected = Subject(b[8] >> 6)
	m.InfoLen = b[9] >> 1
	m.Reason = RejectReason(binary.BigEndian.Uint16(b[10:]))
	m.Info = b[12 : 12+InfoBytes : 12+InfoBytes]
	m.Private = b[12+InfoBytes:]
}

// Put writes a REJ; additional information and private data are filled up with zeros.
func (m *REJ) Put(b *Data) error {
	c := checker{message: AttrREJ}
	c.bits("rejected message", uint64(m.Rejected), 2)
	c.bits("info length", uint64(m.InfoLen), 7)
	c.length("additional information", m.Info, InfoBytes)
	c.length("private data", m.Private, REJPrivateBytes)
	if c.err != nil {
		return c.err
	}
	putCommIDs(b, m.LocalCommID, m.RemoteCommID)
	b[8] = byte(m.Rejected) << 6
	b[9] = m.InfoLen << 1
	binary.BigEndian.PutUint16(b[10:], uint16(m.Reason))
	putFill(b[12:12+InfoBytes], m.Info)
	putFill(b[12+InfoBytes:], m.Private)
	return nil
}
