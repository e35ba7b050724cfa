package perftest

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/goroce/goroce/ib"
)

// dest is what one side tells the other about a QP: the "keys".
type dest struct {
	LID      uint16 // 0 on Ethernet
	OutReads uint32 // READs and atomics that the QP takes at once
	QPN      ib.QPN
	PSN      ib.PSN // the first that this QP sends
	RKey     ib.RKey
	VAddr    uint64
	GID      ib.GID
	SRQN     uint32 // XRC only
}

// destBytes is the size of the message: text, and a NUL.
const destBytes = 108

// destWidths are the digits of the fields before the GID.
var destWidths = [6]int{4, 4, 6, 6, 8, 16}

// append adds the message to b.
func (d *dest) append(b []byte) []byte {
	start := len(b)
	b = fmt.Appendf(b, "%04x:%04x:%06x:%06x:%08x:%016x:", d.LID, d.OutReads, uint32(d.QPN), uint32(d.PSN),
		uint32(d.RKey), d.VAddr)
	for _, x := range d.GID {
		b = fmt.Appendf(b, "%02x:", x)
	}
	b = fmt.Appendf(b, "%08x:", d.SRQN)
	for len(b)-start < destBytes {
		b = append(b, 0)
	}
	return b
}

// parseDest reads a message of destBytes bytes. Fields may be longer or
// shorter than this side writes them, as long as their values are possible.
func parseDest(msg []byte) (dest, error) {
	var d dest
	text, _, _ := strings.Cut(string(msg), "\x00")
	fields := strings.Split(text, ":")
	const gidFields = 16
	if len(fields) < len(destWidths)+gidFields+1 {
		return d, fmt.Errorf("the peer's keys %q have %d fields, not %d: does it use a GID?", text,
			len(fields), len(destWidths)+gidFields+1)
	}
	var n [len(destWidths)]uint64
	for i, width := range destWidths {
		v, err := strconv.ParseUint(fields[i], 16, width*4)
		if err != nil {
			return d, fmt.Errorf("field %d of the peer's keys %q: %w", i+1, text, err)
		}
		n[i] = v
	}
	gid, err := hex.DecodeString(strings.Join(fields[6:6+gidFields], ""))
	if err != nil || len(gid) != gidFields {
		return d, fmt.Errorf("the GID in the peer's keys %q is not 16 bytes", text)
	}
	srqn, err := strconv.ParseUint(fields[6+gidFields], 16, 32)
	if err != nil {
		return d, fmt.Errorf("the SRQ number in the peer's keys %q: %w", text, err)
	}
	return dest{
		LID: uint16(n[0]), OutReads: uint32(n[1]), QPN: ib.QPN(n[2]), PSN: ib.PSN(n[3]),
		RKey: ib.RKey(n[4]), VAddr: n[5], GID: ib.GID(gid), SRQN: uint32(srqn),
	}, nil
}

// destStructBytes is the size of the same message as a structure, big-endian,
// as it goes over the control. Newer originals add 8 bytes.
const destStructBytes = 56

// appendStruct adds the structure to b. There are 4 bytes of padding before the
// address; the last field is the index of the sender's GID.
func (d *dest) appendStruct(b []byte) []byte {
	be := binary.BigEndian
	b = be.AppendUint32(b, uint32(d.LID))
	b = be.AppendUint32(b, d.OutReads)
	b = be.AppendUint32(b, uint32(d.QPN))
	b = be.AppendUint32(b, uint32(d.PSN))
	b = be.AppendUint32(b, uint32(d.RKey))
	b = be.AppendUint32(b, 0)
	b = be.AppendUint64(b, d.VAddr)
	b = append(b, d.GID[:]...)
	b = be.AppendUint32(b, d.SRQN)
	return be.AppendUint32(b, 0)
}

// parseDestStruct reads a structure of destStructBytes bytes at least.
func parseDestStruct(b []byte) dest {
	be := binary.BigEndian
	return dest{
		LID: uint16(be.Uint32(b)), OutReads: be.Uint32(b[4:]), QPN: ib.QPN(be.Uint32(b[8:])) & ib.QPNMask,
		PSN: ib.PSN(be.Uint32(b[12:])) & ib.PSNMask, RKey: ib.RKey(be.Uint32(b[16:])), VAddr: be.Uint64(b[24:]),
		GID: ib.GID(b[32:48]), SRQN: be.Uint32(b[48:]),
	}
}
