package ibverbs

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/goroce/goroce/ib"
)

// dest is what one side tells the other about a QP.
type dest struct {
	LID uint16 // 0 on Ethernet
	QPN ib.QPN
	PSN ib.PSN // the first that this QP sends
	GID ib.GID
}

// destBytes is the size of the message: LID, QPN, PSN and GID in hexadecimal,
// colons between, and a NUL.
const destBytes = len("0000:000000:000000:00000000000000000000000000000000\x00")

// append adds the message to b.
func (d *dest) append(b []byte) []byte {
	return fmt.Appendf(b, "%04x:%06x:%06x:%x\x00", d.LID, uint32(d.QPN), uint32(d.PSN), d.GID[:])
}

// parseDest reads a message.
func parseDest(msg []byte) (dest, error) {
	var d dest
	text, _, _ := strings.Cut(string(msg), "\x00")
	fields := strings.Split(text, ":")
	if len(fields) != 4 {
		return d, fmt.Errorf("the peer's address %q has %d fields, not 4: is it the same tool?", text, len(fields))
	}
	var n [3]uint64
	for i, bits := range [3]int{16, 24, 24} {
		v, err := strconv.ParseUint(fields[i], 16, bits)
		if err != nil {
			return d, fmt.Errorf("field %d of the peer's address %q: %w", i+1, text, err)
		}
		n[i] = v
	}
	gid, err := hex.DecodeString(fields[3])
	if err != nil || len(gid) != len(d.GID) {
		return d, fmt.Errorf("the GID in the peer's address %q is not 16 bytes", text)
	}
	return dest{LID: uint16(n[0]), QPN: ib.QPN(n[1]), PSN: ib.PSN(n[2]), GID: ib.GID(gid)}, nil
}
