package mad

import "github.com/goroce/goroce/ib"

// Private data of the messages that end a connection, in bytes.
const (
	DREQPrivateBytes = 220
	DREPPrivateBytes = 224
)

// DREQ asks to end a connection (IBTA 12.6.10).
type DREQ struct {
	LocalCommID  CommID
	RemoteCommID CommID
	RemoteQPN    ib.QPN // the receiver's queue pair
	Private      []byte
}

// Decode reads a DREQ. Private aliases b.
func (m *DREQ) Decode(b *Data) {
	m.LocalCommID, m.RemoteCommID = commIDs(b)
	m.RemoteQPN = ib.QPN(get24(b[8:]))
	m.Private = b[12:]
}

// Put writes a DREQ; private data is filled up with zeros.
func (m *DREQ) Put(b *Data) error {
	c := checker{message: AttrDREQ}
	c.bits("remote QPN", uint64(m.RemoteQPN), 24)
	c.length("private data", m.Private, DREQPrivateBytes)
	if c.err != nil {
		return c.err
	}
	putCommIDs(b, m.LocalCommID, m.RemoteCommID)
	put24(b[8:], uint32(m.RemoteQPN))
	b[11] = 0
	putFill(b[12:], m.Private)
	return nil
}

// DREP answers a DREQ (IBTA 12.6.11).
type DREP struct {
	LocalCommID  CommID
	RemoteCommID CommID
	Private      []byte
}

// Decode reads a DREP. Private aliases b.
func (m *DREP) Decode(b *Data) {
	m.LocalCommID, m.RemoteCommID = commIDs(b)
	m.Private = b[8:]
}

// Put writes a DREP; private data is filled up with zeros.
func (m *DREP) Put(b *Data) error {
	return putPrivate(b, AttrDREP, m.LocalCommID, m.RemoteCommID, m.Private, DREPPrivateBytes)
}
