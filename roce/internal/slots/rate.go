package slots

import (
	"encoding/binary"
	"time"

	"github.com/goroce/goroce/ib"
)

// Handing on a message to queue pair 1 costs this device a copy and a system call, and wakes
// another one. Anybody can send such messages. So a device hands on no more than handRate a second,
// and handBurst at a time. The rest is lost, as with a full inbox; honest senders send again.
// Packets of queue pairs are not bounded: they arrive at the wrong socket only if the kernel has
// put them in one datagram with others.
const (
	handRate  = 10_000
	handBurst = 4096
)

// allowance bounds how many messages may still be handed on.
type allowance struct {
	spentNs int64 // of handBurst; a message costs 1/handRate of a second, and passing time pays it back
	atNs    int64
}

// take reports whether one more message may be handed on.
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
