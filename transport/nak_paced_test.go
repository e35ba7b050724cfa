package transport_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
)

// pacedResponder is a puppet whose engine sends a READ response of 1 KiB in 1 ms.
func pacedResponder(t *testing.T) *puppet {
	return newPuppet(t, pairConfig{tuning: [2]transport.Tuning{{Congestion: cc.Config{
		Algorithm: cc.DCQCNPaper, StartRate: 8 * 1130 * 1000, Burst: -1, Profile: steady(),
	}}}}, linkConfig{})
}

// The time in which a sequence NAK is not repeated begins when it leaves, not
// when it was queued behind READ responses that are paced.
func TestSequenceNAKBehindPacedREAD(t *testing.T) {
	d := pacedResponder(t)
	d.readReq(0, 0, 4096)
	d.send(ib.RCWriteOnly, 5, make([]byte, 8)) // 4 is lost
	d.wait(3 * ms / 2)
	d.send(ib.RCWriteOnly, 6, make([]byte, 8))
	d.wait(5 * ms / 2) // the last response and the NAK have left
	d.send(ib.RCWriteOnly, 7, make([]byte, 8))
	const wire = `
		a> READ RESPONSE FIRST 0 1024B ACK msn=1
		a> READ RESPONSE MIDDLE 1 1024B
		a> READ RESPONSE MIDDLE 2 1024B
		a> READ RESPONSE LAST 3 1024B ACK msn=1
		a> ACKNOWLEDGE 4 NAK PSN sequence error msn=1`
	left := d.log[len(d.log)-1].sent
	require.Greater(t, left, int64(transport.DefaultSeqNAKRearmNs),
		"it waited for longer than the time after which it is repeated")
	d.want(wire)
	d.wait(left + transport.DefaultSeqNAKRearmNs - 1 - d.now)
	d.want("")
	d.wait(1)
	d.want("a> ACKNOWLEDGE 4 NAK PSN sequence error msn=1")
	d.send(ib.RCWriteOnly, 4, make([]byte, 8))
	d.want("a> ACKNOWLEDGE 4 ACK msn=2")
}

// The same for an RNR NAK: what comes behind the refused request gets no
// sequence NAK while the peer waits as it was told to.
func TestRNRNAKBehindPacedREAD(t *testing.T) {
	d := pacedResponder(t)
	d.readReq(0, 0, 4096)
	d.send(ib.RCSendOnly, 4, make([]byte, 8))
	d.wait(4 * ms)
	left := d.log[len(d.log)-1].sent
	d.want(`
		a> READ RESPONSE FIRST 0 1024B ACK msn=1
		a> READ RESPONSE MIDDLE 1 1024B
		a> READ RESPONSE MIDDLE 2 1024B
		a> READ RESPONSE LAST 3 1024B ACK msn=1
		a> ACKNOWLEDGE 4 RNR NAK timer=12 msn=1`)
	wait := d.a.attr.MinRNRTimer.Ns() + transport.DefaultSeqNAKRearmNs
	d.wait(left + wait - 1 - d.now)
	d.send(ib.RCWriteOnly, 5, make([]byte, 8))
	d.want("")
	d.wait(1)
	d.send(ib.RCWriteOnly, 5, make([]byte, 8))
	d.want("a> ACKNOWLEDGE 4 NAK PSN sequence error msn=1")
}
