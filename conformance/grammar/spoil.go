package grammar

import (
	"encoding/binary"

	"github.com/goroce/goroce/ib"
)

// spoil makes a near-miss of the packet that was encoded last: one thing is wrong with it.
func (s *Speaker) spoil(c *Conn, p *Packet) {
	k := &s.pk
	switch s.d.N(32) {
	case 0:
		k.Opcode = ib.Opcode(s.d.Byte())
	case 1: // the opcode beside
		k.Opcode ^= 1 << s.d.N(5)
	case 2:
		k.Opcode ^= 0x20 << s.d.N(3)
	case 3:
		k.PSN = k.PSN.Add(1 - 2*s.d.N(2))
	case 4:
		k.PSN = k.PSN.Add(s.d.N(600) - 300)
	case 5:
		k.PSN = k.PSN.Add(1<<23 + s.d.N(3) - 1)
	case 6:
		k.DestQP ^= 1 << s.d.N(24)
	case 7:
		k.DestQP = [...]ib.QPN{0, 1, ib.QPNMask}[s.d.N(3)]
	case 8:
		k.RETH.RKey ^= 1 << s.d.N(32)
		k.Atomic.RKey, k.IETH = k.RETH.RKey, k.RETH.RKey
	case 9:
		k.RETH.VA += uint64(int64(int8(s.d.Byte())))
		k.Atomic.VA += uint64(s.d.N(8))
	case 10:
		k.RETH.VA = -uint64(s.d.Byte())
		k.Atomic.VA = k.RETH.VA
	case 11:
		k.RETH.Len += uint32(int32(int8(s.d.Byte())))
	case 12:
		k.RETH.Len = [...]uint32{0, 1 << 31, 1<<31 + 1, 1<<32 - 1}[s.d.N(4)]
	case 13: // a pad that is announced, and is not there
		p.Data[1] = p.Data[1]&^0x30 | byte(s.d.N(4))<<4
		return
	case 14:
		k.Payload = s.payload[:s.d.N(len(k.Payload)+5)]
	case 15:
		k.Payload = s.payload[:min(c.MTU+s.d.N(64), len(s.payload))]
		k.Pad = uint8(ib.PadFor(len(k.Payload)))
	case 16:
		k.Payload, k.Pad = s.payload[:0], 0
		p.Data = s.encodeLoose()
		p.Data[1] |= byte(s.d.N(4)) << 4
		return
	case 17:
		k.TVer = uint8(s.d.N(16))
	case 18:
		k.PKey = ib.PKey(s.d.U16())
	case 19:
		k.AckReq = !k.AckReq
	case 20:
		k.AETH.Syndrome = ib.Syndrome(s.d.Byte())
	case 21:
		k.AETH.MSN = k.AETH.MSN + ib.MSN(s.d.Byte()) - 128&ib.PSNMask
	case 22:
		k.DETH.QKey ^= 1 << s.d.N(32)
	case 23:
		k.FETH = ib.FETH(s.d.U32())
	case 24:
		k.Resv6, k.Resv7, k.FECN, k.BECN, k.MigReq = uint8(s.d.N(64)), uint8(s.d.N(128)), s.d.OneIn(2),
			s.d.OneIn(2), s.d.OneIn(2)
	case 25:
		p.Stranger = true
	case 26:
		p.BadICRC = true
	case 27: // an answer of another kind, or to what was not asked
		op := [...]ib.Opcode{ib.RCReadRespFirst, ib.RCReadRespMiddle, ib.RCReadRespLast, ib.RCReadRespOnly,
			ib.RCAcknowledge, ib.RCAtomicAck}[s.d.N(6)]
		n := 0
		if op.Info().Op == ib.OpReadResponse {
			n = s.d.N(c.MTU + 1)
		}
		s.begin(c, op, c.heard.Prev().Add(s.d.N(4)-2), n).AETH = ib.AETH{Syndrome: ib.ACKNoCredits, MSN: c.msn.Next()}
	case 28: // a packet in the middle of another's message
		left := c.message
		c.message = message{}
		s.request(c)
		c.message = left
	case 29, 30, 31:
		s.cut(p)
		return
	}
	p.Data = s.encodeLoose()
}

// encodeLoose is encode, also of opcodes that nobody defines: these have no headers.
func (s *Speaker) encodeLoose() []byte {
	if s.pk.Opcode.Known() {
		return s.encode()
	}
	op := s.pk.Opcode
	s.pk.Opcode = ib.RCSendMiddle
	b := s.encode()
	s.pk.Opcode, b[0] = op, byte(op)
	return b
}

// cut damages the bytes.
func (s *Speaker) cut(p *Packet) {
	switch s.d.N(3) {
	case 0:
		p.Data = p.Data[:s.d.N(len(p.Data)+1)]
	case 1:
		for range 1 + s.d.N(30) {
			p.Data = append(p.Data, s.d.Byte())
		}
	case 2:
		p.Data[s.d.N(min(len(p.Data), ib.MaxHeaderBytes))] ^= 1 << s.d.N(8)
	}
	s.buf = p.Data
}

// noise is bytes that nobody speaks, for the right queue pair or for none.
func (s *Speaker) noise(c *Conn) Packet {
	n := s.d.N(100)
	b := s.buf[:0]
	for range n {
		b = append(b, s.d.Byte())
	}
	if n >= ib.BTHBytes && s.d.OneIn(2) {
		binary.BigEndian.PutUint32(b[4:], uint32(c.Target))
		b[1] &= 0xf0
		b[2], b[3] = 0xff, 0xff
	}
	s.buf = b
	return Packet{Data: b, Conn: c}
}
