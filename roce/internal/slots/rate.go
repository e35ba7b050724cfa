package slots

import (
	"encoding/binary"
	"time"

	"github.com/goroce/goroce/ib"
)

// Messages to queue pair 1 that are handed on cost this device a copy and a system call, and wake
// another one, and anybody can send them. So a device hands on no more than handRate a second, and
// handBurst at a time. The rest is lost, as with a full inbox: who has sent it in earnest sends it
// again. Packets of queue pairs are not bounded: they come aside only if the kernel has put them in
// one datagram with others.
const (
	handRate  = 10_000
	handBurst = 4096
)

// allowance is what may still be handed on.
type allowance struct {
	spentNs int64 // of handBurst; a message takes a handRate-th of a second, which comes back as time passes
	atNs    int64
}

// take reports whether one more may be.
func (a *allowance) take(nowNs int64) bool {
	const each = int64(time.Second) / handRate
	a.spentNs, a.atNs = max(a.spentNs-max(nowNs-a.atNs, 0), 0), nowNs
	if a.spentNs+each > handBurst*each {
		return false
	}
	a.spentNs += each
	return true
}

// toGSI reports whether a packet is a message to queue pair 1.
func toGSI(b []byte) bool {
	return len(b) >= ib.BTHBytes && ib.QPN(binary.BigEndian.Uint32(b[4:]))&ib.QPNMask == ib.QPNGSI
}
