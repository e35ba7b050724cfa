package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/udp"
)

// commandTime bounds a command that reads; none of them has much to do.
const commandTime = 10 * time.Second

// thisSystem is the machine that the program runs on.
func thisSystem() *System {
	return &System{
		FS: os.DirFS("/"), Interfaces: interfaces, Feature: ethtool, Limit: limit,
		Open: openLink, Run: runCommand, Owners: owners, CPUs: affinity, User: os.Geteuid(),
	}
}

func interfaces() ([]Interface, error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var out []Interface
	for _, i := range list {
		n := Interface{
			Name: i.Name, Index: i.Index, MTU: i.MTU,
			Up: i.Flags&net.FlagUp != 0, Running: i.Flags&net.FlagRunning != 0, Loopback: i.Flags&net.FlagLoopback != 0,
		}
		n.NoARP = noARP(i.Name)
		addrs, err := i.Addrs()
		if err != nil {
			continue // it went away
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				n.Addrs = append(n.Addrs, p.Addr().Unmap())
				n.Nets = append(n.Nets, p)
			}
		}
		out = append(out, n)
	}
	return out, nil
}

// ethtool asks for a switch of an interface.
func ethtool(iface string, command uint32) (bool, error) {
	on, err := unix.Ethtool(iface, command)
	return on != 0, err
}

// noARP reports whether nobody asks for neighbours on an interface, as on a tunnel.
func noARP(name string) bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq(name)
	if err != nil || unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr) != nil {
		return false
	}
	return ifr.Uint16()&unix.IFF_NOARP != 0
}

func limit(resource int) (uint64, error) {
	var r unix.Rlimit
	err := unix.Getrlimit(resource, &r)
	return r.Cur, err
}

func openLink(a netip.Addr) (caps link.Capabilities, err error) {
	l, err := udp.Open([]netip.Addr{a}, udp.Options{})
	if err != nil {
		return caps, err
	}
	return l.Capabilities(), l.Close()
}

// runCommand runs a command in the language that its output is known in.
func runCommand(ctx context.Context, name string, args ...string) ([]byte, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		// Tools of the administrator may not be in the path of others.
		for _, dir := range []string{"/usr/sbin/", "/sbin/"} {
			if _, statErr := os.Stat(dir + name); statErr == nil {
				path, err = dir+name, nil
				break
			}
		}
	}
	if err != nil {
		return nil, fs.ErrNotExist
	}
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		text := strings.TrimSpace(string(exit.Stderr))
		if first, _, more := strings.Cut(text, "\n"); more {
			text = first
		}
		return out,
			fmt.Errorf("%s: %s", strings.Join(append([]string{name}, args...), " "), strings.TrimSuffix(text, "."))
	}
	return out, err
}

func affinity() (cpus []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	for c := range len(set) * 64 {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}
