package paths

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/goroce/goroce/internal/netns"
	"github.com/goroce/goroce/internal/unix"
)

// tunName is the name of the device in each namespace, and tunQueue how many packets the kernel
// holds that the link has not read yet.
const (
	tunName  = "tun0"
	tunQueue = 5000
)

// lab is two namespaces, and the files that read and write what their devices send and receive.
type lab struct {
	ns    [2]*netns.Namespace
	files [2]*os.File
	addrs [2]netip.Addr
}

// newLab makes the namespaces. The error is unix.EPERM (by errors.Is) without the privilege.
func newLab() (l *lab, err error) {
	l = &lab{addrs: [2]netip.Addr{netip.MustParseAddr("10.97.0.1"), netip.MustParseAddr("10.97.0.2")}}
	for i := range l.ns {
		if l.ns[i], err = netns.New(); err != nil {
			break
		}
		if e := l.ns[i].Do(func() { l.files[i], err = openTUN(tunName) }); e != nil {
			err = e
		}
		if err != nil {
			break
		}
		for _, args := range []string{
			"link set lo up", fmt.Sprintf("link set %s mtu %d txqueuelen %d up", tunName, linkMTU, tunQueue),
			fmt.Sprintf("addr add %v/24 dev %s", l.addrs[i], tunName),
		} {
			err = errors.Join(err, l.ns[i].IP("%s", args))
		}
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// openTUN makes a device for IP packets in the namespace of this thread.
func openTUN(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("open /dev/net/tun", err)
	}
	r, err := unix.NewIfreq(name)
	if err == nil {
		r.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = os.NewSyscallError("TUNSETIFF", unix.IoctlIfreq(fd, unix.TUNSETIFF, r))
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

// start starts a command at an end.
func (l *lab) start(end int, cmd *exec.Cmd) (err error) {
	if e := l.ns[end].Do(func() { err = cmd.Start() }); e != nil {
		return e
	}
	return err
}

// sysctl sets a variable of the network at both ends.
func (l *lab) sysctl(file, value string) (err error) {
	for _, n := range l.ns {
		if e := n.Do(func() { err = errors.Join(err, os.WriteFile("/proc/sys/net/"+file, []byte(value), 0)) }); e !=
			nil {
			err = errors.Join(err, e)
		}
	}
	return err
}

// dropped is how many packets the kernel had no room for because the link did not read them.
func (l *lab) dropped() (n int) {
	for _, ns := range l.ns {
		_ = ns.Do(func() { n += tunDrops() })
	}
	return n
}

func (l *lab) close() (err error) {
	for i := range l.ns {
		if l.files[i] != nil {
			err = errors.Join(err, l.files[i].Close())
		}
		if l.ns[i] != nil {
			err = errors.Join(err, l.ns[i].Close())
		}
	}
	return err
}

// tunDrops is how many packets the device of this thread's namespace has not sent.
func tunDrops() (n int) {
	b, err := os.ReadFile("/proc/thread-self/net/dev")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		name, rest, _ := strings.Cut(line, ":")
		if f := strings.Fields(rest); strings.TrimSpace(name) == tunName && len(f) > 11 {
			n, _ = strconv.Atoi(f[11]) // transmit, drop
		}
	}
	return n
}
