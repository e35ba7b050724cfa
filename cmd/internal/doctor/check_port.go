package doctor

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
)

// udpSocket is a line of /proc/net/udp.
type udpSocket struct {
	port  uint16
	any   bool // bound to no particular address
	user  int
	inode string // "0" for a socket of the kernel's own
}

// udpSockets returns the sockets that have a port. The columns are number, local address and port
// in hexadecimal, and so on; the user is column 7, the inode column 9.
func (v *view) udpSockets(port uint16) ([]udpSocket, error) {
	var out []udpSocket
	for _, name := range []string{"udp", "udp6"} {
		text, err := v.read("proc/thread-self/net/" + name)
		if name == "udp6" && errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			c := strings.Fields(line)
			if len(c) < 10 {
				continue
			}
			addr, hexPort, ok := strings.Cut(c[1], ":")
			b, err := hex.DecodeString(hexPort)
			if !ok || err != nil || len(b) != 2 || uint16(b[0])<<8|uint16(b[1]) != port {
				continue
			}
			user, err := strconv.Atoi(c[7])
			if err != nil {
				continue
			}
			out = append(out, udpSocket{port: port, any: strings.Trim(addr, "0") == "", user: user, inode: c[9]})
		}
	}
	return out, nil
}

// checkRxe: the kernel's own RoCE has the port of all addresses of its network namespace.
func checkRxe(v *view) []Finding {
	socks, err := v.udpSockets(ib.UDPPort)
	if err != nil {
		return []Finding{unknown("", "who has UDP port 4791", err)}
	}
	kernels := slices.ContainsFunc(socks, func(s udpSocket) bool { return s.inode == "0" })
	loaded := false
	if _, err := fs.Stat(v.FS, "sys/module/rdma_rxe"); err == nil {
		loaded = true
	}
	switch {
	case kernels:
		return []Finding{{
			Level: Fail, Found: "the kernel's RoCE (rdma_rxe) has UDP port 4791 here",
			Why: "It takes the packets of every address of this network namespace; no other program gets any.",
			Mend: []string{"rdma link show", "modprobe -r rdma_rxe",
				"# or run in another network namespace: ip netns exec NAME ..."},
		}}
	case loaded:
		return []Finding{{
			Level: Note, Found: "rdma_rxe is loaded and has no socket in this network namespace",
			Why: "It takes UDP port 4791 as soon as a device of it is made here.",
		}}
	}
	return []Finding{{Found: "the kernel's RoCE (rdma_rxe) is not in the way"}}
}

// checkPort: a device needs UDP port 4791 of its address, alone or shared with others of the same
// user.
func checkPort(v *view) (out []Finding) {
	for _, a := range v.addrs() {
		caps, err := v.open(a)
		f := Finding{Subject: a.String()}
		switch {
		case err == nil && caps.Slot.Bits > 0:
			f.Found = fmt.Sprintf("a device could be opened, beside others of this user: slot %d of %d",
				caps.Slot.Index, 1<<caps.Slot.Bits)
		case err == nil:
			f.Level, f.Found = Note, "a device could be opened, but not beside another one"
			f.Why = caps.Alone + "."
		default:
			f = v.portFailure(a, err)
		}
		out = append(out, f)
	}
	return out
}

// portFailure says why no device could be opened.
func (v *view) portFailure(a netip.Addr, err error) Finding {
	f := Finding{Subject: a.String(), Level: Fail, Found: err.Error(), Why: "No device can be opened on this address."}
	var open *link.OpenError
	if errors.As(err, &open) {
		f.Found = open.Err.Error()
		if open.Hint != "" {
			f.Why += " " + strings.ToUpper(open.Hint[:1]) + open.Hint[1:] + "."
		}
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return f
	}
	f.Mend = []string{"ss -ulpn sport = :4791"}
	socks, err := v.udpSockets(ib.UDPPort)
	if err != nil {
		return f
	}
	for _, s := range socks {
		if pid, name, ok := v.holder(s.inode); ok {
			f.Found = fmt.Sprintf("UDP port 4791 is taken by process %d (%s) of user %d", pid, name, s.user)
			f.Mend = []string{fmt.Sprintf("kill %d   # if it is not needed", pid), "roce ... --addr ANOTHER_ADDRESS"}
			return f
		}
	}
	return f
}

// holder finds the process that has a socket; it sees those of other users only with privileges.
func (v *view) holder(inode string) (pid int, name string, ok bool) {
	if inode == "0" {
		return 0, "", false
	}
	procs, _ := fs.ReadDir(v.FS, "proc")
	for _, p := range procs {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		dir := path.Join("proc", p.Name(), "fd")
		fds, _ := fs.ReadDir(v.FS, dir)
		for _, fd := range fds {
			if to, err := fs.ReadLink(v.FS, path.Join(dir, fd.Name())); err == nil && to == "socket:["+inode+"]" {
				name, _ := v.read(path.Join("proc", p.Name(), "comm"))
				return pid, name, true
			}
		}
	}
	return 0, "", false
}

// descriptorsPerAddress is what a device takes of an address that it shares: a socket for each
// slot, and what goes with it (package slots).
const descriptorsPerAddress = 210

// checkDescriptors: an address that is shared takes about 200 descriptors.
func checkDescriptors(v *view) []Finding {
	n, err := v.Limit(unix.RLIMIT_NOFILE)
	if err != nil {
		return []Finding{unknown("", "the limit of open files", err)}
	}
	need := uint64(descriptorsPerAddress * max(len(v.addrs()), 1))
	f := Finding{Found: fmt.Sprintf("%d open files allowed, a device on all addresses here takes about %d", n, need)}
	if n < need+need/4 {
		f.Level, f.Mend = Warn, []string{fmt.Sprintf("ulimit -n %d", max(need*2, 1024))}
		f.Why = "A process without room for them takes the address for itself, and the next one there fails."
	}
	return []Finding{f}
}
