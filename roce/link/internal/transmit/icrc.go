package transmit

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
)

// ICRC is the ICRC state of a flow of packets to send.
type ICRC struct {
	ib.ICRC
	// RxeFlush gives FLUSH requests the ICRC that Linux rdma_rxe expects.
	RxeFlush bool
}

// Of returns the ICRC of a packet with the IPv4 identification id.
func (c *ICRC) Of(p *edge.TxPacket, id uint16) uint32 {
	if c.RxeFlush && ib.Opcode(p.Header[0]) == ib.RCFlush {
		var b [ib.MaxHeaderBytes]byte
		return c.ChecksumFlushRxe(id, b[:copy(b[:], p.Headers())]) ^ p.ICRCXor
	}
	return link.PacketICRC(&c.ICRC, p, id)
}

// Append appends headers, payload, padding and ICRC to b, for a packet in a datagram of its own,
// with identification 0.
func (c *ICRC) Append(b []byte, p *edge.TxPacket) []byte {
	start := len(b)
	b = link.AppendPacket(b, &c.ICRC, p, 0)
	if c.RxeFlush && ib.Opcode(p.Header[0]) == ib.RCFlush {
		body := b[start : len(b)-ib.ICRCBytes]
		ib.PutICRC(b[len(b)-ib.ICRCBytes:], c.ChecksumFlushRxe(0, body)^p.ICRCXor)
	}
	return b
}

// Renew gives a packet that was a later one of a run, and now goes out in a datagram of its own,
// the ICRC for identification 0.
func (c *ICRC) Renew(packet []byte) {
	body, trailer := packet[:len(packet)-ib.ICRCBytes], packet[len(packet)-ib.ICRCBytes:]
	if c.RxeFlush && ib.Opcode(body[0]) == ib.RCFlush {
		ib.PutICRC(trailer, c.ChecksumFlushRxe(0, body))
	} else {
		ib.PutICRC(trailer, c.Checksum(0, body))
	}
}
