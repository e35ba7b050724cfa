package drill

import (
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/ib"
)

// Defaults of injected packets.
const (
	payloadSeed    = 1
	defaultPayload = 16
)

// inject sends a packet to the peer.
func (p *player) inject(s *step) {
	if s.form == formCM {
		p.injectCM(s)
		return
	}
	q := p.end(s)
	pk := ib.Packet{BTH: ib.BTH{Opcode: s.opcode, PKey: ib.PKeyDefault, MigReq: true, DestQP: ib.QPN(q.qp.QPN())}}
	p.payload(s, q, &pk)
	p.defaults(s, q, &pk)
	for i := range s.args {
		a := &s.args[i]
		f := fieldOf(a.key, s.opcode)
		if f == nil {
			continue
		}
		v := p.eval(a.num, f.key)
		if a.key == "psn" {
			v = uint64(p.base(q, s.opcode, true).Add(int(int32(v))))
		}
		f.set(&pk, v)
	}
	if s.has("ack") {
		pk.AckReq = true
	}
	if s.has("noack") {
		pk.AckReq = false
	}
	p.put(s, q, &pk)
}

// base is the PSN that those of a script count from: requests and their answers count from the
// first of the requester.
func (p *player) base(q *end, op ib.Opcode, toPeer bool) ib.PSN {
	if op == ib.CNP {
		return 0
	}
	if toPeer != op.Info().Response {
		return q.rq
	}
	return q.sq
}

// payload fills in what a packet carries.
func (p *player) payload(s *step, q *end, pk *ib.Packet) {
	info := s.opcode.Info()
	def := 0
	switch info.Payload {
	case ib.PayloadFull:
		def = q.mtu
	case ib.PayloadOneToMTU, ib.PayloadUpToMTU:
		def = defaultPayload
	case ib.PayloadEight:
		def = ib.AtomicBytes
	}
	spec := dataSpec{kind: dataPattern, seed: expr{terms: []term{{op: '+', num: payloadSeed}}}}
	if a := s.arg("data"); a != nil {
		spec = a.data
		if n := spec.length(); n >= 0 {
			def = n
		}
	}
	n := p.size(s, "len", uint64(def), maxPayload)
	pk.Payload, pk.Pad = p.bytes(spec, n), uint8(ib.PadFor(n))
}

// defaults fills in the headers.
func (p *player) defaults(s *step, q *end, pk *ib.Packet) {
	info := s.opcode.Info()
	pk.PSN = p.base(q, s.opcode, true)
	pk.AckReq = info.Transport == ib.RC && !info.Response && info.Pos&ib.Last != 0
	pk.AETH.Syndrome = ib.ACKNoCredits
	switch {
	case s.op == "RNR":
		pk.AETH.Syndrome = ib.RNRNAK(defaultRNRTimer)
	case s.syndrome >= 0:
		pk.AETH.Syndrome = ib.Syndrome(s.syndrome)
	}
	if s.opcode == ib.CNP {
		pk.BECN, pk.MigReq = true, false
	}
	pk.DETH = ib.DETH{QKey: ib.QKey(q.qkey), SrcQP: q.qpn}
	pk.FETH = ib.FlushGlobalVisibility
	pk.RETH.Len = uint32(len(pk.Payload))
	if s.opcode == ib.RCReadRequest || s.opcode == ib.RCFlush {
		pk.RETH.Len = defaultPayload
	}
	// The first region that the script made is the one meant, unless the step says otherwise.
	for i := range p.d.steps {
		x := &p.d.steps[i]
		m := p.regions[x.name]
		if x.verb != "mr" || m == nil {
			continue
		}
		pk.RETH.VA, pk.RETH.RKey = m.Addr(), ib.RKey(m.RKey())
		pk.Atomic.VA, pk.Atomic.RKey = m.Addr(), ib.RKey(m.RKey())
		break
	}
}

// put encodes the packet, with the damage that a step asks for, and sends it.
func (p *player) put(s *step, q *end, pk *ib.Packet) {
	var h [ib.MaxHeaderBytes]byte
	b := append(h[:pk.PutHeaders(h[:])], pk.Payload...)
	b = append(b, make([]byte, pk.Pad)...)
	if s.arg("opcode") != nil {
		b[0] = byte(p.size(s, "opcode", 0, 255))
	}
	trim, grow := p.size(s, "trim", 0, uint64(len(b))), p.size(s, "grow", 0, maxPayload)
	p.seal(s, q.family, append(b[:len(b)-trim], make([]byte, grow)...))
}

// seal adds the ICRC and sends.
func (p *player) seal(s *step, f peer.Family, b []byte) {
	d := Datagram{Sent: true, BadICRC: s.has("badicrc"), Src: p.b.Local(f), Dst: p.b.Peer(f), SrcPort: ib.UDPPort}
	if s.has("stranger") {
		d.Src = p.b.Stranger(f)
	}
	d.TOS = uint8(p.size(s, "tos", 0, 255))
	var crc uint32
	if len(b) >= ib.BTHBytes {
		c := ib.NewICRC(ib.Flow{Src: d.Src, Dst: d.Dst, SrcPort: d.SrcPort, DstPort: ib.UDPPort})
		crc = c.Checksum(0, b)
		if p.quirk && ib.Opcode(b[0]) == ib.RCFlush && !s.has("stdicrc") {
			crc = c.ChecksumFlushRxe(0, b)
		}
	}
	if s.has("badicrc") {
		crc ^= 0x00010000
	}
	b = append(b, 0, 0, 0, 0)
	ib.PutICRC(b[len(b)-ib.ICRCBytes:], crc)
	d.Payload = b
	d.At = p.b.Now()
	if !p.sends {
		// Of several packets the first may be the one that counts, and this program may be late
		// with the others.
		p.mark, p.sends = d.At, true
	}
	p.sent(s, d)
	peer.Must(p.b.Send(d))
}
