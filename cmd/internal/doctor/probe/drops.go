package probe

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"strconv"
	"strings"
)

// drops are what a network namespace has dropped of UDP, since it was made. A packet that was
// damaged on the way is one of them, where RoCE sends with UDP checksums: to a socket it looks like
// loss.
type drops struct {
	Damaged uint32 // the UDP checksum was wrong
	Full    uint32 // the receive buffer of a socket was full
}

func (d drops) since(before drops) drops {
	return drops{d.Damaged - before.Damaged, d.Full - before.Full}
}

// dropCounters reads drops of the network namespace in which it was opened.
type dropCounters struct {
	file *os.File
	v6   bool
}

// openDrops returns nil where there is no such file.
func openDrops(v6 bool) *dropCounters {
	name := "/proc/thread-self/net/snmp"
	if v6 {
		name += "6"
	}
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	return &dropCounters{f, v6}
}

func (c *dropCounters) read() (drops, bool) {
	if c == nil {
		return drops{}, false
	}
	b, err := io.ReadAll(io.NewSectionReader(c.file, 0, 1<<20))
	if err != nil {
		return drops{}, false
	}
	if c.v6 {
		return parseSNMP6(string(b))
	}
	return parseSNMP(string(b))
}

func (c *dropCounters) close() {
	if c != nil {
		c.file.Close()
	}
}

// parseSNMP reads /proc/net/snmp: a line of names, and one of values.
func parseSNMP(text string) (d drops, ok bool) {
	var names []string
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if len(w) == 0 || w[0] != "Udp:" {
			continue
		}
		if names == nil {
			names = w
			continue
		}
		for i := range min(len(names), len(w)) {
			d.note(names[i], w[i])
		}
		return d, true
	}
	return d, false
}

// parseSNMP6 reads /proc/net/snmp6: a name and a value a line.
func parseSNMP6(text string) (d drops, ok bool) {
	for line := range strings.Lines(text) {
		if w := strings.Fields(line); len(w) == 2 {
			if name, is := strings.CutPrefix(w[0], "Udp6"); is {
				d.note(name, w[1])
				ok = true
			}
		}
	}
	return d, ok
}

func (d *drops) note(name, value string) {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return
	}
	switch name {
	case "InCsumErrors":
		d.Damaged = uint32(n)
	case "RcvbufErrors":
		d.Full = uint32(n)
	}
}

// dropsBytes is the length of drops behind the message of type tallied, if the question had room
// for them: a mark, and the fields. Servers of before leave zeros there.
const (
	dropsBytes = 12
	dropsMark  = 0x44524F50
)

func (d drops) encode() []byte {
	b := binary.BigEndian.AppendUint32(nil, dropsMark)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, d.Damaged), d.Full)
}

func decodeDrops(b []byte) (d drops, ok bool) {
	if len(b) < dropsBytes || !bytes.Equal(b[:4], binary.BigEndian.AppendUint32(nil, dropsMark)) {
		return d, false
	}
	return drops{binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])}, true
}
