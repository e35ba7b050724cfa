package sockio

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// PortUser returns the user who has a UDP port on an address, if the kernel says
// (/proc/net/udp).
func PortUser(a netip.Addr, port uint16) (uid int, ok bool) {
	name := "/proc/thread-self/net/udp" // of the network namespace that the thread is in
	if a.Is6() {
		name += "6"
	}
	f, err := os.Open(name)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	return portUser(f, a, port)
}

// portUser looks through a table of sockets: number, local address and port in hexadecimal, and more,
// the user in column 7.
func portUser(table io.Reader, a netip.Addr, port uint16) (uid int, ok bool) {
	want := hexAddr(a) + ":" + strings.ToUpper(hex.EncodeToString(binary.BigEndian.AppendUint16(nil, port)))
	for s := bufio.NewScanner(table); s.Scan(); {
		if f := strings.Fields(s.Text()); len(f) > 7 && f[1] == want {
			uid, err := strconv.Atoi(f[7])
			return uid, err == nil
		}
	}
	return 0, false
}

// hexAddr writes an address as the kernel does: each 32 bits of it as a number of the
// machine.
func hexAddr(a netip.Addr) string {
	var s strings.Builder
	for b := a.AsSlice(); len(b) >= 4; b = b[4:] {
		var w [4]byte
		binary.BigEndian.PutUint32(w[:], binary.NativeEndian.Uint32(b))
		s.WriteString(strings.ToUpper(hex.EncodeToString(w[:])))
	}
	return s.String()
}
