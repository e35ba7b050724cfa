package sockio

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/processes"
	"github.com/goroce/goroce/roce/link"
)

// PortUser returns the user that has a UDP port on an address, and the inode of the socket, if the
// kernel reports them (/proc/net/udp).
func PortUser(a netip.Addr, port uint16) (uid int, inode uint64, ok bool) {
	name := "/proc/thread-self/net/udp" // in the network namespace of the thread
	if a.Is6() {
		name += "6"
	}
	f, err := os.Open(name)
	if err != nil {
		return 0, 0, false
	}
	defer f.Close()
	return portUser(f, a, port)
}

// portUser searches a table of sockets: number, local address and port in hexadecimal, and more,
// the user in column 7, the inode in column 9.
func portUser(table io.Reader, a netip.Addr, port uint16) (uid int, inode uint64, ok bool) {
	want := hexAddr(a) + ":" + strings.ToUpper(hex.EncodeToString(binary.BigEndian.AppendUint16(nil, port)))
	for s := bufio.NewScanner(table); s.Scan(); {
		if f := strings.Fields(s.Text()); len(f) > 9 && f[1] == want {
			uid, err := strconv.Atoi(f[7])
			inode, err2 := strconv.ParseUint(f[9], 10, 64)
			return uid, inode, err == nil && err2 == nil
		}
	}
	return 0, 0, false
}

// hexAddr formats an address as the kernel does: each 32 bits of it as a number of the machine.
func hexAddr(a netip.Addr) string {
	var s strings.Builder
	for b := a.AsSlice(); len(b) >= 4; b = b[4:] {
		var w [4]byte
		binary.BigEndian.PutUint32(w[:], binary.NativeEndian.Uint32(b))
		s.WriteString(strings.ToUpper(hex.EncodeToString(w[:])))
	}
	return s.String()
}

// PortError says what to do about an error of a socket of an address and UDP port.
func PortError(a netip.Addr, err error, port uint16) *link.OpenError {
	hint := BindHint(err, port)
	if errors.Is(err, unix.EAFNOSUPPORT) {
		hint = "this kernel has no " + familyName(a)
	}
	var says interface{ Hint() string }
	if errors.As(err, &says) {
		return &link.OpenError{Addr: a, Hint: says.Hint(), Err: err}
	}
	if !errors.Is(err, unix.EADDRINUSE) {
		return &link.OpenError{Addr: a, Hint: hint, Err: err}
	}
	uid, inode, ok := PortUser(a, port)
	switch holders := processes.Holders(1, inode); {
	case !ok:
	case uid == os.Geteuid() && len(holders) > 0:
		hint = fmt.Sprintf("%v has UDP port %d on this address for itself, as \"roce doctor --serve\" has it, or a program that had too few "+
			"descriptors to share it (ulimit -n): end it, or give each program an address of its own (127.0.0.1, 127.0.0.2, ...)", holders[0], port)
	case uid != os.Geteuid():
		hint = fmt.Sprintf("a program of user %d has UDP port %d on this address, and only programs of one user can share it: "+
			"run both as the same user, or give each user an address of its own", uid, port)
	}
	return &link.OpenError{Addr: a, Hint: hint, Err: err}
}

// Unshared adds to an error of Open why the link did not try to share its addresses; nil means that
// it did.
func Unshared(err, why error) error {
	var open *link.OpenError
	if why == nil || !errors.Is(err, unix.EADDRINUSE) || !errors.As(err, &open) {
		return err
	}
	e := *open
	if errors.Is(why, unix.EMFILE) {
		e.Err = fmt.Errorf("%w; and alone it cannot have the address: %w", why, open.Err)
		return &e
	}
	e.Hint = fmt.Sprintf("%s. This process could not share it: %v", e.Hint, why)
	return &e
}

func familyName(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}
