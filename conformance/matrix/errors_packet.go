package matrix

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/peer"
)

// Packets that nobody should send: what the receiver makes of them.

// ghostAck acknowledges what was never sent.
func ghostAck(x *trial) string {
	x.transfer(peer.OpWrite, 64)
	port := x.env.Wire.Port(x.req.p.PortName())
	for _, e := range x.tr.Events() {
		if e.Pkt.Opcode != ether.OpAcknowledge {
			continue
		}
		for _, ahead := range []uint32{1, 2, 1000} {
			p, ok := ether.Decode(slices.Clone(e.Pkt.Frame))
			if !ok {
				continue
			}
			psn := (e.Pkt.PSN + ahead) & psnMask
			b := p.BTH()
			b[9], b[10], b[11] = byte(psn>>16), byte(psn>>8), byte(psn)
			p.Seal()
			port.Inject(p.Frame)
		}
		if err := x.conn.transfer(peer.OpWrite, faultSize); err != nil {
			peer.Must(fmt.Errorf("after ACKs for PSNs not sent: %w", err))
		}
		if wc, err := x.rq.PollSend(1, 0); err != nil || len(wc) > 0 {
			peer.Must(fmt.Errorf("one completion too many: %v %v", wc, err))
		}
		return "ignored"
	}
	peer.Must(errors.New("no ACK was seen"))
	return ""
}

// badResponse answers a WRITE with a READ response.
func badResponse(x *trial) string {
	hit := x.rule(&ether.Rule{Match: x.target(ack, 64), Kind: ether.Rewrite, Edit: func(p *ether.Packet) {
		p.BTH()[0] = ether.OpReadOnly
	}})
	status := x.refused(x.wr(peer.OpWrite, 1, 64), peer.BadRespErr, peer.FatalErr)
	x.acted(hit, 1, "responses that were changed")
	return status
}

// unexpectedOpcode puts a WRITE MIDDLE into a SEND.
func unexpectedOpcode(x *trial) string {
	hit := x.rule(&ether.Rule{Match: x.target(reqMiddle, faultSize), Kind: ether.Rewrite,
		Edit: func(p *ether.Packet) { p.BTH()[0] = ether.OpWriteMiddle }})
	x.recv(2, faultSize)
	status := x.refused(x.wr(peer.OpSend, 1, faultSize), peer.RemInvReqErr)
	x.acted(hit, 1, "requests that were changed")
	return status
}
