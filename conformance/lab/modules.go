package lab

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// bootModules are loaded before the guest is ready, with what they depend on.
var bootModules = []string{
	"virtio_pci", "virtio_net", "ipv6", "crc32_generic", "crc32c_generic", "ib_core", "ib_uverbs", "rdma_cm",
	"rdma_ucm", "ib_umad", "rdma_rxe",
}

// extraModules lie in the guest for modprobe.
var extraModules = []string{
	"veth", "bridge", "sch_netem", "sch_red", "sch_tbf", "sch_ingress", "cls_u32", "cls_flower", "act_mirred", "ifb",
	"null_blk", "nvmet-rdma", "nvme-rdma", "nf_tables", "ib_ipoib",
}

// optionalModules are missing from some kernels, where they are built in or gone.
var optionalModules = []string{"ipv6", "crc32_generic", "crc32c_generic", "ib_ipoib", "nf_tables"}

// moduleName makes one name of the spellings with - and _.
func moduleName(file string) string {
	n := path.Base(file)
	n, _, _ = strings.Cut(n, ".ko")
	return strings.ReplaceAll(n, "-", "_")
}

// addModules adds the modules wanted with their dependencies, the list for labd and a
// modules.dep for modprobe. Debian builds modules.dep on installation, which the lab
// does not do, so that the dependencies come from the modules themselves.
func addModules(ctx context.Context, c *cpioWriter, root, release string) error {
	base := ""
	for _, d := range []string{"usr/lib/modules", "lib/modules"} {
		if _, err := os.Stat(filepath.Join(root, d, release)); err == nil {
			base = filepath.Join(root, d, release)
		}
	}
	if base == "" {
		return fmt.Errorf("lab: no modules of kernel %s", release)
	}
	paths := map[string]string{} // name to path
	err := filepath.WalkDir(base, func(p string, d fs.DirEntry, err error) error {
		if err == nil && strings.Contains(d.Name(), ".ko") {
			paths[moduleName(d.Name())] = p
		}
		return err
	})
	if err != nil {
		return err
	}
	dst := "usr/lib/modules/" + release
	deps := map[string][]string{}
	var order []string // dependencies first
	var add func(name string) error
	add = func(name string) error {
		if _, done := deps[name]; done {
			return nil
		}
		p, ok := paths[name]
		if !ok {
			return fmt.Errorf("lab: kernel %s has no module %s", release, name)
		}
		b, err := readModule(ctx, p)
		if err != nil {
			return err
		}
		list, err := modinfo(b, "depends")
		if err != nil {
			return fmt.Errorf("lab: module %s: %w", name, err)
		}
		deps[name] = nil
		for _, l := range list {
			for _, d := range strings.Split(l, ",") {
				if d = strings.ReplaceAll(d, "-", "_"); d == "" {
					continue
				}
				deps[name] = append(deps[name], d)
				if err := add(d); err != nil {
					return err
				}
			}
		}
		order = append(order, name)
		c.file(dst+"/"+name+".ko", 0o644, b)
		return nil
	}
	want := func(names []string) error {
		for _, m := range names {
			m = strings.ReplaceAll(m, "-", "_")
			if _, ok := paths[m]; !ok && (slices.Contains(optionalModules, m) || isBuiltin(base, m)) {
				continue
			}
			if err := add(m); err != nil {
				return err
			}
		}
		return nil
	}
	if err := want(bootModules); err != nil {
		return err
	}
	var boot strings.Builder
	for _, m := range order {
		fmt.Fprintf(&boot, "/%s/%s.ko\n", dst, m)
	}
	c.file("lab/modules", 0o644, []byte(boot.String()))
	if err := want(extraModules); err != nil {
		return err
	}
	var dep strings.Builder
	for _, m := range order {
		fmt.Fprintf(&dep, "%s.ko:", m)
		for _, d := range allDeps(deps, m) {
			fmt.Fprintf(&dep, " %s.ko", d)
		}
		dep.WriteByte('\n')
	}
	c.file(dst+"/modules.dep", 0o644, []byte(dep.String()))
	return nil
}

// allDeps lists what m needs, directly or not, nearest first, as modules.dep does.
func allDeps(deps map[string][]string, m string) []string {
	var out []string
	for todo := slices.Clone(deps[m]); len(todo) > 0; todo = todo[1:] {
		if !slices.Contains(out, todo[0]) {
			out = append(out, todo[0])
			todo = append(todo, deps[todo[0]]...)
		}
	}
	return out
}

func isBuiltin(base, name string) bool {
	b, err := os.ReadFile(filepath.Join(base, "modules.builtin"))
	if err != nil {
		return false
	}
	for _, l := range strings.Fields(string(b)) {
		if moduleName(l) == name {
			return true
		}
	}
	return false
}

func readModule(ctx context.Context, p string) ([]byte, error) {
	switch {
	case strings.HasSuffix(p, ".ko"):
		return os.ReadFile(p)
	case strings.HasSuffix(p, ".ko.xz"):
		b, err := exec.CommandContext(ctx, "xz", "-dc", p).Output()
		if err != nil {
			return nil, fmt.Errorf("lab: xz -dc %s: %w", filepath.Base(p), err)
		}
		return b, nil
	}
	return nil, fmt.Errorf("lab: %s: unknown module compression", filepath.Base(p))
}
