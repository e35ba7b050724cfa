package ib_test

import (
	"encoding/hex"
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/ib"
)

// A packet of a kernel's rdma_rxe: 16 bytes sent by rping.
func ExamplePacket_Decode() {
	udp, _ := hex.DecodeString("0400ffff0000001180dea351" + "000055c0359bf3700000055000000040" + "5c961a92")
	var p ib.Packet
	if err := p.Decode(udp); err != ib.DecodeOK {
		fmt.Println(err)
		return
	}
	fmt.Printf("%v to QP %v, PSN %06x, ack requested: %v\n", p.Opcode, p.DestQP, p.PSN, p.AckReq)
	fmt.Printf("%d bytes: %x\n", len(p.Payload), p.Payload)
	// Output:
	// RC SEND ONLY to QP 0x000011, PSN dea351, ack requested: true
	// 16 bytes: 000055c0359bf3700000055000000040
}

// The ICRC of a WRITE, in the pieces in which a sender has it: headers, then
// payload straight from memory, then padding.
func ExampleICRC() {
	payload := []byte("hello")
	p := ib.Packet{
		BTH: ib.BTH{Opcode: ib.RCWriteOnly, PKey: ib.PKeyDefault, DestQP: 0x11, PSN: 1,
			Pad: uint8(ib.PadFor(len(payload)))},
		RETH: ib.RETH{VA: 0x1000, RKey: 0x42, Len: uint32(len(payload))},
	}
	var head [ib.MaxHeaderBytes]byte
	n := p.PutHeaders(head[:])

	icrc := ib.NewICRC(ib.Flow{
		Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), SrcPort: 0xC001,
		DstPort: ib.UDPPort,
	})
	total := n + len(payload) + int(p.Pad) + ib.ICRCBytes
	crc := icrc.Head(total, 0, head[:n])
	crc = ib.Extend(crc, payload)
	crc = ib.Extend(crc, make([]byte, p.Pad))
	var trailer [ib.ICRCBytes]byte
	ib.PutICRC(trailer[:], crc)
	fmt.Printf("%x\n", trailer)

	// The same in one go.
	p.Payload = payload
	udp := p.Append(nil, &icrc, 0)
	fmt.Printf("%x\n", udp[len(udp)-ib.ICRCBytes:])
	// Output:
	// ba9a4ec4
	// ba9a4ec4
}

// A receiver on a UDP socket does not see the IPv4 identification.
func ExampleICRC_Verify() {
	icrc := ib.NewICRC(ib.Flow{
		Src: netip.MustParseAddr("10.77.0.2"), Dst: netip.MustParseAddr("10.77.0.3"), SrcPort: 0xC6C5,
		DstPort: ib.UDPPort,
	})
	udp, _ := hex.DecodeString("0400ffff0000001180dea351" + "000055c0359bf3700000055000000040" + "5c961a92")
	id, match := icrc.Verify(0, udp)
	fmt.Printf("%#04x %v\n", id, match == ib.MatchSolved)
	udp[20] ^= 1
	_, match = icrc.Verify(0, udp)
	fmt.Println(match == ib.Mismatch)
	// Output:
	// 0xa7c1 true
	// true
}
