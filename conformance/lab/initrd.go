package lab

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// guestPrograms are the programs that go into a guest, as patterns of base names in
// the unpacked root's bin folders. A pattern that matches nothing is an error: it
// would mean a tool silently missing from the matrix.
var guestPrograms = []string{
	"dash", "ip", "tc", "ss", "rdma", "bridge", "nstat", "ethtool", "tcpdump", "iperf3", "qperf",
	"ib_send_*", "ib_write_*", "ib_read_*", "ib_atomic_*", "run_perftest_loopback",
	"ibv_*", "rping", "ucmatose", "udaddy", "udpong", "mckey", "rstream", "riostream", "rcopy", "cmtime",
	"rdma_server", "rdma_client", "rdma_xserver", "rdma_xclient",
}

// busyboxApplets get a link in /bin, the last place in the guest's PATH.
var busyboxApplets = []string{
	"cat", "ls", "cp", "mv", "rm", "mkdir", "rmdir", "ln", "echo", "printf", "sleep", "true", "false",
	"test", "[", "env", "grep", "sed", "awk", "head", "tail", "wc", "sort", "uniq", "cut", "tr", "tee",
	"xargs", "find", "seq", "date", "dd", "cmp", "diff", "md5sum", "sha256sum", "hexdump", "od", "stat", "df",
	"free", "ps", "top", "kill", "pidof", "nice", "timeout", "time", "uname", "dmesg", "mount", "umount",
	"modprobe", "insmod", "rmmod", "lsmod", "sysctl", "nc", "ping", "ping6", "arp", "hostname", "poweroff",
	"reboot", "setsid", "nohup", "sync", "touch", "chmod", "readlink", "realpath", "basename", "dirname", "expr", "id",
	"taskset", "usleep",
}

// buildInitrd writes the initramfs.
func (im *Image) buildInitrd(ctx context.Context, root string, labd, agent []byte) error {
	_, _, m := parseSuite(im.Suite)
	tmp := im.Initrd + ".tmp"
	f, err := os.Create(tmp)
	if err != nil {
		return err
	}
	defer f.Close()
	bw := bufio.NewWriterSize(f, 1<<20)
	c := newCPIO(bw)
	for _, d := range []string{"proc", "sys", "dev", "tmp", "root", "run", "var/tmp", "etc", "bin", "usr/bin",
		"usr/sbin", "usr/local/bin", m.libs} {
		c.dir(d)
	}
	c.symlink("lib", "usr/lib")
	c.symlink("sbin", "usr/sbin")
	c.charDev("dev/console", 5, 1)
	c.charDev("dev/null", 1, 3)
	c.file("init", 0o755, labd)
	c.file("usr/bin/verbsd", 0o755, agent)
	c.file("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\n"))
	c.file("etc/group", 0o644, []byte("root:x:0:\n"))
	c.file("etc/hosts", 0o644, []byte("127.0.0.1 localhost\n::1 localhost\n"))
	c.file("etc/nsswitch.conf", 0o644, []byte("hosts: files\npasswd: files\ngroup: files\nservices: files\n"))
	if err := im.addPrograms(c, root, m); err != nil {
		return err
	}
	if err := addModules(ctx, c, root, im.Kernel); err != nil {
		return err
	}
	if err := c.close(); err != nil {
		return err
	}
	if err := bw.Flush(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(tmp, im.Initrd)
}

// binDirs are where packages put programs, by preference.
var binDirs = []string{"usr/bin", "bin", "usr/sbin", "sbin"}

func (im *Image) addPrograms(c *cpioWriter, root string, m *machine) error {
	addLibsOf := func(file string) error {
		libs, err := libDeps(root, file)
		if err != nil {
			return err
		}
		for _, l := range libs {
			if err := addFile(c, root, l, path.Join(m.libs, path.Base(l))); err != nil {
				return err
			}
		}
		return nil
	}
	for _, pat := range guestPrograms {
		found := false
		for _, d := range binDirs {
			files, err := filepath.Glob(filepath.Join(root, d, pat))
			if err != nil {
				return err
			}
			for _, p := range files {
				rel, err := filepath.Rel(root, p)
				if err != nil {
					return err
				}
				st, err := os.Stat(p) // links to absolute targets point outside of root
				if err != nil || !st.Mode().IsRegular() {
					continue
				}
				found = true
				dst := "usr/bin/" + path.Base(rel)
				if c.has(dst) {
					continue
				}
				if err := addFile(c, root, rel, dst); err != nil {
					return err
				}
				im.Tools = append(im.Tools, path.Base(rel))
				b, err := os.ReadFile(p)
				if err != nil {
					return err
				}
				if isELF(b) {
					if err := addLibsOf(rel); err != nil {
						return err
					}
				}
			}
		}
		if !found && pat != "run_perftest_loopback" {
			return fmt.Errorf("lab: no program %s in suite %s", pat, im.Suite)
		}
	}
	slices.Sort(im.Tools)
	// The loader has a fixed path; pthread_exit and others open libgcc_s and friends at
	// run time, so that no dependency names them.
	ld, err := findLib(root, m.loader)
	if err != nil {
		return err
	}
	if err := addFile(c, root, ld, m.loaderDir+"/"+m.loader); err != nil {
		return err
	}
	extra := []string{"libgcc_s.so.1", "libibverbs.so.1", "librdmacm.so.1"}
	for _, l := range extra {
		p, err := findLib(root, l)
		if err != nil {
			return err
		}
		if err := addFile(c, root, p, path.Join(m.libs, l)); err != nil {
			return err
		}
		if err := addLibsOf(p); err != nil {
			return err
		}
	}
	providers, _ := filepath.Glob(filepath.Join(root, m.libs, "libibverbs", "librxe-*.so"))
	preload, _ := filepath.Glob(filepath.Join(root, m.libs, "rsocket", "*.so*"))
	if len(providers) == 0 {
		return fmt.Errorf("lab: no rxe provider in suite %s", im.Suite)
	}
	for _, p := range append(providers, preload...) {
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		if err := addFile(c, root, rel, rel); err != nil {
			return err
		}
		if err := addLibsOf(rel); err != nil {
			return err
		}
	}
	if err := addFile(c, root, "etc/libibverbs.d/rxe.driver", "etc/libibverbs.d/rxe.driver"); err != nil {
		return err
	}
	dists, _ := filepath.Glob(filepath.Join(root, "usr/lib/tc", "*.dist"))
	for _, p := range dists {
		if err := addFile(c, root, "usr/lib/tc/"+filepath.Base(p), "usr/lib/tc/"+filepath.Base(p)); err != nil {
			return err
		}
	}
	for _, d := range binDirs {
		if _, err := os.Stat(filepath.Join(root, d, "busybox")); err == nil {
			if err := addFile(c, root, d+"/busybox", "bin/busybox"); err != nil {
				return err
			}
		}
	}
	if !c.has("bin/busybox") {
		return fmt.Errorf("lab: no busybox in suite %s", im.Suite)
	}
	// Not busybox's shell: that one prefers its own applets, such as a smaller ip.
	c.symlink("bin/sh", "../usr/bin/dash")
	for _, a := range busyboxApplets {
		c.symlink("bin/"+a, "busybox")
	}
	return nil
}

func addFile(c *cpioWriter, root, src, dst string) error {
	if c.has(dst) {
		return nil
	}
	p := filepath.Join(root, src)
	st, err := os.Stat(p)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(p)
	if err != nil {
		return err
	}
	c.file(dst, uint32(st.Mode().Perm()), b)
	return nil
}
