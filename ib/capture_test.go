package ib_test

import (
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
)

// TestCaptures decodes and encodes every captured packet.
func TestCaptures(t *testing.T) {
	seen := map[ib.Opcode]int{}
	frames := captures(t)
	for _, f := range frames {
		checkRoundTrip(t, f)
		var p ib.Packet
		p.Decode(f.udp)
		seen[p.Opcode]++
		info := p.Opcode.Info()
		if !info.Payload.Admits(len(p.Payload), ib.MaxMTUBytes) && info.Payload != ib.PayloadFull {
			t.Errorf("%v: %v with %d bytes of payload", f, p.Opcode, len(p.Payload))
		}
		if int(p.Pad) != ib.PadFor(len(p.Payload)) {
			t.Errorf("%v: %d bytes of padding after %d of payload", f, p.Pad, len(p.Payload))
		}
	}
	// What the captures are known to hold, so that an empty or misread set cannot pass.
	for _, o := range []ib.Opcode{
		ib.RCSendFirst, ib.RCSendMiddle, ib.RCSendLast, ib.RCSendOnly, ib.RCWriteFirst,
		ib.RCWriteMiddle, ib.RCWriteLast, ib.RCWriteOnly, ib.RCWriteOnlyImm, ib.RCReadRequest,
		ib.RCReadRespFirst, ib.RCReadRespMiddle, ib.RCReadRespLast, ib.RCReadRespOnly, ib.RCAcknowledge,
		ib.RCAtomicAck, ib.RCCompareSwap, ib.RCFetchAdd, ib.UCSendFirst, ib.UCSendMiddle, ib.UCSendLast, ib.UDSendOnly,
	} {
		if seen[o] == 0 {
			t.Errorf("no %v in the captures", o)
		}
	}
	t.Logf("%d packets, %d opcodes: %v", len(frames), len(seen), seen)
}

// TestCaptureTruncations cuts every captured packet after each byte.
func TestCaptureTruncations(t *testing.T) {
	seeds.Long(t)
	for _, f := range captures(t) {
		checkTruncations(t, f)
	}
}
