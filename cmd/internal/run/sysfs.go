package run

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goroce/goroce/internal/unix"
)

// sysfsFiles are the files below /sys/class that say what devices there are: scripts read them, and programs that look for a
// device's interface. Each address is that of a device.
func sysfsFiles(addrs []netip.Addr, iface func(netip.Addr) string) map[string]string {
	files := map[string]string{"infiniband_verbs/abi_version": "6"}
	for i, a := range addrs {
		device := fmt.Sprintf("infiniband/goroce%d/", i)
		gid := a.As16()
		var words []string
		for j := 0; j < len(gid); j += 2 {
			words = append(words, hex.EncodeToString(gid[j:j+2]))
		}
		for name, text := range map[string]string{
			"node_type": "1: CA", "node_desc": fmt.Sprintf("goroce%d", i), "fw_ver": "goroce",
			"ports/1/state": "4: ACTIVE", "ports/1/phys_state": "5: LinkUp", "ports/1/link_layer": "Ethernet",
			"ports/1/lid": "0x0", "ports/1/sm_lid": "0x0", "ports/1/pkeys/0": "0xffff",
			"ports/1/gids/0": strings.Join(words, ":"), "ports/1/gid_attrs/types/0": "RoCE v2",
		} {
			files[device+name] = text
		}
		if name := iface(a); name != "" {
			files[device+"ports/1/gid_attrs/ndevs/0"] = name
		}
		verbs := fmt.Sprintf("infiniband_verbs/uverbs%d/", i)
		files[verbs+"ibdev"], files[verbs+"abi_version"] = fmt.Sprintf("goroce%d", i), "1"
	}
	return files
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
			return err == nil && (p.Addr().Unmap() == a.WithZone("") || p.Addr().IsLoopback() && a.IsLoopback() && p.Contains(a))
		}) {
			return i.Name
		}
	}
	return ""
}

// writeSysfs makes a folder with these files, and returns its path. Its name says what is in it: programs that are started with the
// same devices share it, and nobody needs to remove it.
func writeSysfs(files map[string]string) (string, error) {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "%s\n%s\n", name, files[name])
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("goroce-sys-%d-%x", os.Geteuid(), sum.Sum(nil)[:8]))
	if ours(dir) {
		return dir, nil
	}
	tmp, err := os.MkdirTemp("", "goroce-sys-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	for name, text := range files {
		path := filepath.Join(tmp, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o444); err != nil {
			return "", err
		}
	}
	if err := os.Rename(tmp, dir); err != nil && !ours(dir) {
		return "", err
	}
	if !ours(dir) {
		return "", fmt.Errorf("%s: %w", dir, errors.ErrUnsupported)
	}
	return dir, nil
}

// ours reports whether a path is a folder of this user's that nobody else can write to: anybody may make one in a folder for
// temporary files.
func ours(dir string) bool {
	i, err := os.Lstat(dir)
	if err != nil || !i.IsDir() || i.Mode()&(fs.ModePerm&0o022) != 0 {
		return false
	}
	uid, _, ok := unix.Owner(i)
	return ok && uid == os.Geteuid()
}
