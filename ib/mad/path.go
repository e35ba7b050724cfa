package mad

import (
	"encoding/binary"

	"github.com/goroce/goroce/ib"
)

// LIDPermissive is the LID in REQs of RoCE peers, which have none.
const LIDPermissive = 0xFFFF

// Path is a path between two ports, as REQ carries it twice and LAP once.
type Path struct {
	LocalLID, RemoteLID uint16
	LocalGID, RemoteGID ib.GID
	FlowLabel           uint32 // 20 bits
	PacketRate          uint8  // 6 bits
	TrafficClass        uint8
	HopLimit            uint8
	SL                  uint8 // 4 bits
	SubnetLocal         bool
	AckTimeout          ib.TimeoutCode // packet life time there and back, and the ack delay
}

const pathBytes = 44

func (c *checker) path(p *Path) {
	c.bits("flow label", uint64(p.FlowLabel), 20)
	c.bits("packet rate", uint64(p.PacketRate), 6)
	c.bits("SL", uint64(p.SL), 4)
	c.bits("ACK timeout", uint64(p.AckTimeout), 5)
}

// decode reads the 44 bytes that a REQ has for a path.
func (p *Path) decode(b *[pathBytes]byte) {
	*p = Path{
		LocalLID: binary.BigEndian.Uint16(b[0:]), RemoteLID: binary.BigEndian.Uint16(b[2:]),
		LocalGID: ib.GID(b[4:20]), RemoteGID: ib.GID(b[20:36]),
		FlowLabel: get24(b[36:]) >> 4, PacketRate: b[39] & 0x3F, TrafficClass: b[40], HopLimit: b[41],
		SL: b[42] >> 4, SubnetLocal: b[42]&0x08 != 0, AckTimeout: ib.TimeoutCode(b[43] >> 3),
	}
}

func (p *Path) put(b *[pathBytes]byte) {
	binary.BigEndian.PutUint16(b[0:], p.LocalLID)
	binary.BigEndian.PutUint16(b[2:], p.RemoteLID)
	copy(b[4:20], p.LocalGID[:])
	copy(b[20:36], p.RemoteGID[:])
	put24(b[36:], p.FlowLabel<<4)
	b[39], b[40], b[41] = p.PacketRate, p.TrafficClass, p.HopLimit
	b[42] = p.SL<<4 | flag(p.SubnetLocal, 0x08)
	b[43] = byte(p.AckTimeout) << 3
}
