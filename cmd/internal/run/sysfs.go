package run

import (
	"encoding/hex"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goroce/goroce/internal/unix"
)

// sysfsOf is what the hook needs for the files below /sys/class/infiniband that a program looks
// for: the GID and the interface of each device. Each address is that of a device.
func sysfsOf(addrs []netip.Addr, iface func(netip.Addr) string) string {
	var devices []string
	for _, a := range addrs {
		gid := a.As16()
		var words []string
		for j := 0; j < len(gid); j += 2 {
			words = append(words, hex.EncodeToString(gid[j:j+2]))
		}
		devices = append(devices, strings.Join(words, ":")+"/"+iface(a))
	}
	return strings.Join(devices, ",")
}

// ifaceOf is the interface that has an address, or "".
func ifaceOf(a netip.Addr) string {
	all, err := net.Interfaces()
	if err != nil {
		return ""
	}
	for _, i := range all {
		have, err := i.Addrs()
		if err != nil {
			continue
		}
		if slices.ContainsFunc(have, func(h net.Addr) bool {
			p, err := netip.ParsePrefix(h.String())
			return err == nil &&
				(p.Addr().Unmap() == a.WithZone("") || p.Addr().IsLoopback() && a.IsLoopback() && p.Contains(a))
		}) {
			return i.Name
		}
	}
	return ""
}

// removeLeft removes the folders that the hook has made in processes which were killed: those of
// this user that no process has locked.
func removeLeft() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "goroce-sys-*"))
	for _, dir := range left {
		if !ours(dir) {
			continue
		}
		f, err := os.Open(dir)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(dir) // the next one tries again
		}
		f.Close()
	}
}

// ours reports whether a path is a folder of this user's: anybody may make one in a folder for
// temporary files.
func ours(dir string) bool {
	i, err := os.Lstat(dir)
	if err != nil || !i.Mode().IsDir() || i.Mode()&fs.ModeSymlink != 0 {
		return false
	}
	uid, _, ok := unix.Owner(i)
	return ok && uid == os.Geteuid()
}
