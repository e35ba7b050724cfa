package paths

import (
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/stretchr/testify/require"
)

// rocePacket is one with data, to queue pair 17.
func rocePacket(op ib.Opcode, psn uint32) []byte {
	b := datagram(20 + 8 + 12 + 64 + 4)
	be.PutUint16(b[22:], ib.UDPPort)
	bth := b[28:]
	bth[0] = byte(op)
	be.PutUint32(bth[4:], 17)
	be.PutUint32(bth[8:], psn)
	return b
}

func tcpPacket(seq uint32, n int) []byte {
	b := make([]byte, 40+n)
	b[0], b[9], b[32] = 0x45, protoTCP, 5<<4
	be.PutUint32(b[24:], seq)
	return b
}

// A packet that was sent before is a repeat; if it had been delivered it was for nothing. That
// holds where numbers begin again, and acknowledgements do not count.
func TestBookRoCE(t *testing.T) {
	var k book
	send := func(op ib.Opcode, psn uint32, arrives bool) {
		if f := k.enter(rocePacket(op, psn&ib.PSNMask)); arrives {
			k.delivers(f)
		}
	}
	const first = ib.PSNMask - 3
	for i := range uint32(8) {
		send(ib.RCWriteMiddle, first+i, i != 2 && i != 5)
	}
	send(ib.RCAcknowledge, 5, true)
	c := k.counts[RoCE]
	require.Equal(t, [4]int{9, 8, 0, 0}, [4]int{c.In, c.Data, c.Repeats, c.Needless})
	send(ib.RCWriteMiddle, first+2, false) // lost again
	send(ib.RCWriteMiddle, first+2, true)
	send(ib.RCWriteMiddle, first+3, true) // going back, for nothing
	send(ib.RCWriteMiddle, first+5, true)
	send(ib.RCWriteMiddle, first+5, true) // by a timer
	send(ib.RCWriteMiddle, first+8, true)
	c = k.counts[RoCE]
	require.Equal(t, [3]int{14, 5, 2}, [3]int{c.Data, c.Repeats, c.Needless})
	send(ib.RCReadRespMiddle, first+2, true) // numbers of its own
	require.Equal(t, 5, k.counts[RoCE].Repeats)
}

// TCP repeats parts, and not always as it had cut them.
func TestBookTCP(t *testing.T) {
	var k book
	send := func(seq uint32, n int, arrives bool) {
		if f := k.enter(tcpPacket(seq, n)); arrives && f.stream != nil {
			k.delivers(f)
		}
	}
	const first = 0xFFFFFF00
	send(first, 1000, true)
	seq := uint32(first)
	send(seq+1000, 1000, false)
	send(seq+2000, 1000, true)
	send(seq+1000, 500, true)  // needed
	send(seq+1500, 1500, true) // part of it was
	send(seq+1200, 600, true)  // for nothing
	send(0, 0, true)           // an acknowledgement
	c := k.counts[TCP]
	require.Equal(t, [4]int{7, 6, 3, 1}, [4]int{c.In, c.Data, c.Repeats, c.Needless})
}

// What is remembered has a bound.
func TestBookBound(t *testing.T) {
	var s seen
	for i := range int64(3 * maxRuns) {
		s.add(2*i, 2*i+1)
	}
	require.LessOrEqual(t, len(s.runs), maxRuns)
	require.True(t, s.has(6*maxRuns-2, 6*maxRuns-1))
	require.False(t, s.has(6*maxRuns-3, 6*maxRuns-2))
	require.True(t, s.has(1, 2), "what is forgotten counts as delivered")
}
