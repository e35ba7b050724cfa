package matrix

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// What rxe does when it forgets to go on, and what is somebody else's fault.
func TestStopped(t *testing.T) {
	const first, packets = psnMask - 3, 128
	at := 0
	requests := func(from, to int) (all []pcap.Packet) {
		for i := from; i < to; i++ {
			at++
			p := packetAt(addrs[1], at, ib.RCWriteMiddle, toUs, uint32(first+i)&psnMask)
			if i == 0 {
				p.Opcode = ib.RCWriteFirst
			} else if i == packets-1 {
				p.Opcode = ib.RCWriteLast
			}
			p.PayloadBytes, p.RETH.Len = 1024, packets*1024
			all = append(all, p)
		}
		return all
	}
	ack := func(i int, ok bool) pcap.Packet {
		at++
		return said(addrs[0], toGuest, uint32(first+i)&psnMask, at, ok)[0]
	}
	for name, c := range map[string]struct {
		all  []pcap.Packet
		rc   bool
		want bool
	}{
		"UC":               {requests(0, 68), false, true},
		"UC, all sent":     {requests(0, packets), false, false},
		"UC, few":          {requests(0, 64), false, false},
		"RC, acknowledged": {append(requests(0, 68), ack(67, true)), true, true},
		"RC, in two steps": {append(append(requests(0, 66), ack(65, true)),
			append(requests(66, 68), ack(67, true))...), true, true},
		"RC, not acknowledged":     {requests(0, 68), true, false},
		"RC, the last one was not": {append(requests(0, 68), ack(66, true)), true, false},
		"RC, refused":              {append(requests(0, 68), ack(67, false)), true, false},
		"RC, a gap":                {append(requests(0, 60), append(requests(61, 69), ack(68, true))...), true, false},
		"RC, sent again":           {append(requests(0, 68), append(requests(0, 1), ack(67, true))...), true, false},
		"RC, all sent":             {append(requests(0, packets), ack(packets-1, true)), true, false},
	} {
		for i := range c.all {
			if !c.rc {
				c.all[i].Opcode |= 0x20 // UC
			}
		}
		require.Equal(t, c.want, stopped(reported(c.all), first, packets), name)
	}
}
