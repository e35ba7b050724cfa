package layers_test

import (
	"encoding/hex"
	"fmt"

	"github.com/google/gopacket"
	golayers "github.com/google/gopacket/layers"
	"github.com/goroce/goroce/roce/layers"
)

// A READ request of rdma_rxe, from the IP header on.
func Example() {
	layers.Register()
	b, _ := hex.DecodeString("4500003c9c3c4000401189d60a4d00030a4d0002c6c512b7002800000c00ffff0000001180ca0a7a000055c0359bf3700000055000000040a59f29d4")
	p := gopacket.NewPacket(b, golayers.LayerTypeIPv4, gopacket.Default)
	bth := p.Layer(layers.LayerTypeBTH).(*layers.BTH)
	reth := p.Layer(layers.LayerTypeRETH).(*layers.RETH)
	fmt.Println(bth.Opcode, bth.DestQP, bth.PSN, reth.Len, p.Layer(layers.LayerTypeICRC).(*layers.ICRC).Right)
	// Output: RC READ REQUEST 0x000011 13240954 64 true
}
