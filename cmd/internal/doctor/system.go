package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strconv"
	"strings"

	"github.com/goroce/goroce/roce/link"
)

// System is what checks read of a machine.
type System struct {
	FS         fs.FS // from the root: proc and sys
	Interfaces func() ([]Interface, error)
	// Feature asks a driver for one of its switches: ETHTOOL_GGRO and the like.
	Feature func(iface string, command uint32) (on bool, err error)
	// Limit returns a soft resource limit of this process (RLIMIT_*), all ones for none.
	Limit func(resource int) (uint64, error)
	// Open opens a udp link on an address for a moment, and says what it can do.
	Open func(netip.Addr) (link.Capabilities, error)
	// Run runs a command that only reads, and returns what it prints. fs.ErrNotExist means that
	// there is none.
	Run func(ctx context.Context, name string, args ...string) ([]byte, error)
	// Owners asks the network of an interface who has an address, and returns MAC addresses,
	// without this machine's.
	Owners func(ctx context.Context, on *Interface, a netip.Addr) ([]string, error)
	// CPUs returns those that this process may run on.
	CPUs func() ([]int, error)
	// User is the effective user.
	User int
}

// Interface is a network interface of the network namespace that the process is in.
type Interface struct {
	Name     string
	Index    int
	MTU      int
	Up       bool // switched on
	Running  bool // has a carrier
	Loopback bool
	NoARP    bool
	Addrs    []netip.Addr
	Nets     []netip.Prefix // the addresses with the length of their network
}

// view is a machine, and the part of it that the user asked about.
type view struct {
	*System
	ctx    context.Context
	ifaces []Interface // those that matter
	named  bool        // the user has named them

	opened map[netip.Addr]opened
}

type opened struct {
	caps link.Capabilities
	err  error
}

// open is System.Open, once for an address.
func (v *view) open(a netip.Addr) (link.Capabilities, error) {
	o, ok := v.opened[a]
	if !ok {
		o.caps, o.err = v.Open(a)
		v.opened[a] = o
	}
	return o.caps, o.err
}

// read returns the text of a file, without space around it.
func (v *view) read(name string) (string, error) {
	b, err := fs.ReadFile(v.FS, name)
	return strings.TrimSpace(string(b)), err
}

// kernel is a release of Linux; the zero value is one that cannot be read.
type kernel struct{ major, minor int }

func (v *view) kernel() (k kernel) {
	if s, err := v.read("proc/sys/kernel/osrelease"); err == nil {
		_, _ = fmt.Sscanf(s, "%d.%d", &k.major, &k.minor)
	}
	return k
}

// before reports whether this is known to be an older release.
func (k kernel) before(major, minor int) bool {
	return k.major != 0 && (k.major < major || k.major == major && k.minor < minor)
}

func (k kernel) String() string { return fmt.Sprintf("%d.%d", k.major, k.minor) }

// number reads a file that holds one.
func (v *view) number(name string) (int64, error) {
	s, err := v.read(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("/%s: %q is not a number", name, s)
	}
	return n, nil
}

// sysfs returns the folder of an interface below /sys. That may show another network
// namespace, of the time when it was mounted, with interfaces of the same names.
func (v *view) sysfs(i *Interface) (string, error) {
	dir := "sys/class/net/" + i.Name
	n, err := v.number(dir + "/ifindex")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", errors.New("/sys does not show it: it is of another network namespace, or not mounted")
	case err != nil:
		return "", err
	case int(n) != i.Index:
		return "", errors.New("/sys shows another network namespace")
	}
	return dir, nil
}

// usable returns the addresses that a device can have: link-local ones need a zone, and are not for
// everyone.
func (i *Interface) usable() []netip.Addr {
	var out []netip.Addr
	for _, a := range i.Addrs {
		if !a.IsLinkLocalUnicast() && !a.IsMulticast() {
			out = append(out, a)
		}
	}
	return out
}

// addrs returns the usable addresses of all interfaces that matter.
func (v *view) addrs() []netip.Addr {
	var out []netip.Addr
	for i := range v.ifaces {
		if v.ifaces[i].Up {
			out = append(out, v.ifaces[i].usable()...)
		}
	}
	return out
}

// unknown is the finding that something could not be read.
func unknown(subject, what string, err error, mend ...string) Finding {
	if errors.Is(err, fs.ErrPermission) {
		mend = append(mend, "sudo roce doctor")
	}
	return Finding{Subject: subject, Level: Unknown, Found: fmt.Sprintf("%s cannot be read: %v", what, err), Mend: mend}
}

// bytesText writes a number of bytes for people.
func bytesText(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
