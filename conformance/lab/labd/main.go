//go:build linux

package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/goroce/goroce/internal/unix"

	"github.com/goroce/goroce/conformance/lab/guestproto"
)

// bootConfig travels on the kernel's command line as lab=<base64 of JSON>.
type bootConfig struct {
	Host string `json:"host"` // host name
	Dev  string `json:"dev"`  // management device
	Addr string `json:"addr"` // its address with prefix length
}

// devTimeout is how long the management device may take to appear; the host's own limit
// for a boot is longer.
const devTimeout = 2 * time.Minute

func main() {
	err := run() // does not return while all is well
	fmt.Printf("\n%s%v\n", guestproto.FailLine, err)
	// Leave the console time to drain, then stop: the kernel runs with panic=-1 and QEMU
	// with -no-reboot.
	unix.Sync()
	time.Sleep(time.Second)
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() error {
	if err := mounts(); err != nil {
		return err
	}
	cfg, err := readConfig()
	if err != nil {
		return err
	}
	_ = unix.Sethostname([]byte(cfg.Host))
	os.Setenv("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	os.Setenv("HOME", "/root")
	os.Setenv("TMPDIR", "/tmp")
	if err := loadModules("/lab/modules"); err != nil {
		return err
	}
	if err := waitDev(cfg.Dev, devTimeout); err != nil {
		return err
	}
	for _, argv := range [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "link", "set", cfg.Dev, "up"},
		{"ip", "addr", "add", cfg.Addr, "dev", cfg.Dev},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %v: %s", strings.Join(argv, " "), err, out)
		}
	}
	ln, err := net.Listen("tcp", fmt.Sprintf(":%d", guestproto.Port))
	if err != nil {
		return err
	}
	pulse, err := net.ListenPacket("udp4", fmt.Sprintf(":%d", guestproto.Port))
	if err != nil {
		return err
	}
	go echo(pulse)
	fmt.Printf("\n%s\n", guestproto.ReadyLine)
	for {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		go serve(c)
	}
}

// echo sends back what it gets, which shows the lab when programs here run.
func echo(c net.PacketConn) {
	var b [64]byte
	for {
		n, from, err := c.ReadFrom(b[:])
		if err == nil {
			_, err = c.WriteTo(b[:n], from)
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

func mounts() error {
	for _, d := range []string{"/proc", "/sys", "/dev", "/tmp", "/root", "/run", "/var/tmp"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mount /sys: %w", err)
	}
	if err := unix.Mount("devtmpfs", "/dev", "devtmpfs", 0, ""); err != nil && err != unix.EBUSY {
		return fmt.Errorf("mount /dev: %w", err)
	}
	for _, d := range []string{"/dev/shm", "/dev/pts"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("tmpfs", "/dev/shm", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount /dev/shm: %w", err)
	}
	if err := unix.Mount("devpts", "/dev/pts", "devpts", 0, ""); err != nil {
		return fmt.Errorf("mount /dev/pts: %w", err)
	}
	// Verbs pin memory: the limit of 8 MiB would fail large registrations.
	lim := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	return unix.Setrlimit(unix.RLIMIT_MEMLOCK, &lim)
}

func readConfig() (bootConfig, error) {
	var cfg bootConfig
	b, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return cfg, err
	}
	for _, f := range strings.Fields(string(b)) {
		v, ok := strings.CutPrefix(f, "lab=")
		if !ok {
			continue
		}
		j, err := base64.RawURLEncoding.DecodeString(v)
		if err != nil {
			return cfg, fmt.Errorf("kernel command line: lab=: %w", err)
		}
		return cfg, json.Unmarshal(j, &cfg)
	}
	return cfg, fmt.Errorf("kernel command line has no lab=")
}

// loadModules inserts the modules named in the list, one path a line, in order.
func loadModules(list string) error {
	f, err := os.Open(list)
	if err != nil {
		return err
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		path := strings.TrimSpace(sc.Text())
		if path == "" {
			continue
		}
		if err := insmod(path); err != nil {
			return fmt.Errorf("module %s: %w", filepath.Base(path), err)
		}
	}
	return sc.Err()
}

func insmod(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && err != unix.EEXIST {
		return err
	}
	return nil
}

// waitDev polls for a network device: a driver probes after its module is loaded.
func waitDev(name string, limit time.Duration) error {
	end := time.Now().Add(limit)
	for {
		if _, err := os.Stat("/sys/class/net/" + name); err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("no network device %s after %v", name, limit)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
