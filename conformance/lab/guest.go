package lab

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/lab/guestproto"
)

// GuestConfig describes a guest to boot.
type GuestConfig struct {
	Name  string // unique within the lab; also the name of its port on the wire
	Image *Image
	// CPU is QEMU's model; empty means "max", or what suits the machine. PCLMULQDQ is slow under
	// emulation, so a model without it may suit CRC-heavy work.
	CPU string
	// Bridge, if not empty, is a bridge of the kernel in this namespace, made if it is not
	// there, that eth0 is on instead of the wire: then QEMU offers the guest checksum and TCP
	// segmentation offload, which it does not on the wire, and nothing looks at the frames.
	// The guest has no Port.
	Bridge     string
	KernelArgs string // added to the kernel's command line
	MemoryMB   int    // 0 means 1024
	// NetArgs are added to QEMU's virtio-net-pci of eth0. "disable-legacy=on,iommu_platform=on"
	// lets the driver use AF_XDP without copying: it has the device's memory mapped by the kernel's
	// DMA functions then.
	NetArgs string
}

// Guest is a booted machine with rdma_rxe on eth0.
type Guest struct {
	Name  string
	Image *Image
	// Addr4 and Addr6 are the addresses on the segment under test.
	Addr4, Addr6 netip.Addr
	// Dev is the RDMA device.
	Dev string
	// Port is the guest's port on the wire.
	Port *ether.Port

	lab      *Lab
	mgmtPort *ether.Port
	mgmt     string // labd's address
	cmd      *exec.Cmd
	exited   chan struct{}
	exitErr  error
	console  *console
	once     sync.Once
}

// Boot starts a guest and returns once rxe is up in it.
func (l *Lab) Boot(ctx context.Context, cfg GuestConfig) (*Guest, error) {
	n, err := l.reserve()
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		g, err := l.boot(ctx, n, cfg)
		if err == nil || try == bootTries || ctx.Err() != nil {
			return g, err
		}
		l.logf("%v\nlab: %s: once more", err, cfg.Name)
	}
}

// boot boots guest n once.
func (l *Lab) boot(ctx context.Context, n int, cfg GuestConfig) (*Guest, error) {
	last := firstGuest + n
	g := &Guest{
		Name: cfg.Name, Image: cfg.Image, lab: l, Dev: "rxe0",
		Addr4:  netip.MustParseAddr(fmt.Sprintf("%s%d", net4, last)),
		Addr6:  netip.MustParseAddr(fmt.Sprintf("%s%d", net6, last)),
		mgmt:   fmt.Sprintf("%s%d", mgmt4Prefix, last),
		exited: make(chan struct{}),
	}
	start := time.Now()
	if err := g.power(n, cfg); err != nil {
		g.Close()
		return nil, err
	}
	l.mu.Lock()
	l.guests = append(l.guests, g)
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	err := g.waitReady(ctx)
	if err == nil {
		err = g.setup(ctx)
	}
	if err != nil {
		err = fmt.Errorf("lab: guest %s (%s): %w\nconsole:\n%s", g.Name, cfg.Image.Kernel, err, g.console.tail(15))
		g.Close()
		return nil, err
	}
	l.logf("lab: %s: kernel %s up in %.1fs", g.Name, cfg.Image.Kernel, time.Since(start).Seconds())
	return g, nil
}

// Gone is closed when the guest has ended, be it that its kernel stopped or that it was closed.
func (g *Guest) Gone() <-chan struct{} { return g.exited }

// Panicked reports whether the guest's kernel has said that it panics.
func (g *Guest) Panicked() bool { return strings.Contains(g.console.tail(consoleLines), panicMark) }

// panicMark is what a kernel says when it stops.
const panicMark = "Kernel panic"

// PanicArg has a kernel stop at a fault that it else goes on from, as well as it can.
const PanicArg = "oops=panic"

// Console returns the last lines that the guest has printed.
func (g *Guest) Console(lines int) string { return g.console.tail(lines) }

// consoleLines is how many lines of a console are kept, at least.
const consoleLines = 100

// Err says how a guest that is Gone ended.
func (g *Guest) Err() error {
	return fmt.Errorf("lab: guest %s: %w\nconsole:\n%s", g.Name, g.exitErr, g.console.tail(15))
}

// kernelArgs go to each kernel. Its watchdogs must not take a host that gives it no CPU for a
// lockup or a stall: KernelTrouble would report it. Nor must the check at boot whether ticks of the
// timer arrive, which lasts some of them: "IO-APIC + timer doesn't work", the kernel panics then.
const kernelArgs = "quiet panic=-1 mitigations=off random.trust_cpu=on net.ifnames=0" +
	" watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=300 no_timer_check"

// power starts QEMU with the guest's two network devices.
func (g *Guest) power(n int, cfg GuestConfig) error {
	_, _, m := parseSuite(g.Image.Suite)
	qemu, err := lookPath(m.qemu.What)
	if err != nil {
		return err
	}
	boot, err := json.Marshal(map[string]string{"host": g.Name, "dev": "eth1", "addr": g.mgmt + "/24"})
	if err != nil {
		return err
	}
	cpu := cfg.CPU
	if cpu == "" {
		cpu = m.cpu
	}
	// One CPU, but room for a second: where there can be only one, TCG leaves out what
	// orders memory between the guest's CPU and QEMU's own threads. The driver's look for
	// "wake me" then overtakes its store of new packets, and once in about a million packets
	// the device sleeps for ever on a full queue (QEMU 7.2).
	const cpus = "1,maxcpus=2"
	// KVM only on request: where /dev/kvm exists it need not work, and the matrix is tuned for
	// emulation. (Under Linux's PVM, a KVM for machines without VMX and SVM, virtual machines can
	// be made, and QEMU starts, but the guest prints nothing: it would have to be a kernel built
	// for PVM.)
	accel := os.Getenv("GOROCE_LAB_ACCEL")
	if accel == "" {
		accel = "tcg"
	}
	args := []string{
		"-machine", m.board + ",accel=" + accel, "-cpu", cpu, "-smp", cpus, "-m",
		fmt.Sprint(cmp.Or(cfg.MemoryMB, guestMemoryMB)),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-kernel", g.Image.Vmlinuz, "-initrd", g.Image.Initrd,
		"-append", "console=" + m.console + " " + kernelArgs + " " + cfg.KernelArgs + " lab=" +
			base64.RawURLEncoding.EncodeToString(boot),
		"-object", "rng-random,filename=/dev/urandom,id=rng0", "-device", "virtio-rng-pci,rng=rng0",
	}
	g.cmd = exec.Command(qemu)
	for i, seg := range []struct {
		sw   *ether.Switch
		port **ether.Port
		mtu  int
	}{{g.lab.Wire, &g.Port, mtu}, {g.lab.mgmt, &g.mgmtPort, 1500}} {
		device := fmt.Sprintf("virtio-net-pci,netdev=n%d,mac=52:54:00:77:%02x:%02x,host_mtu=%d,romfile=", i,
			i, firstGuest+n, seg.mtu)
		if i == 0 && cfg.NetArgs != "" {
			device += "," + cfg.NetArgs
		}
		if i == 0 && cfg.Bridge != "" {
			tap, err := bridgeTap(cfg.Bridge, n, seg.mtu)
			if err != nil {
				return err
			}
			args = append(args, "-netdev", "tap,id=n0,script=no,downscript=no,vhost=off,ifname="+tap, "-device", device)
			continue
		}
		ours, theirs, err := socketPair(fmt.Sprintf("%s-eth%d", g.Name, i))
		if err != nil {
			return err
		}
		defer theirs.Close()
		if *seg.port, err = seg.sw.Attach(g.Name, ours); err != nil {
			ours.Close()
			return err
		}
		g.cmd.ExtraFiles = append(g.cmd.ExtraFiles, theirs)
		args = append(args,
			"-netdev", fmt.Sprintf("socket,id=n%d,fd=%d", i, 2+len(g.cmd.ExtraFiles)),
			"-device", device)
	}
	g.cmd.Args = append(g.cmd.Args, args...)
	out, err := g.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var qemuErr bytes.Buffer
	g.cmd.Stderr = &qemuErr
	if g.console, err = newConsole(g.lab.OutFile("console-" + g.Name + ".log")); err != nil {
		return err
	}
	if err := g.cmd.Start(); err != nil {
		return fmt.Errorf("lab: qemu: %w", err)
	}
	go func() {
		g.console.run(out)
		err := g.cmd.Wait()
		g.exitErr = fmt.Errorf("qemu ended (%v): %s", err, tail(qemuErr.Bytes(), 500))
		close(g.exited)
	}()
	return nil
}

func (g *Guest) waitReady(ctx context.Context) error {
	select {
	case <-g.console.ready:
		return nil
	case err := <-g.console.failed:
		return err
	case <-g.exited:
		return g.exitErr
	case <-ctx.Done():
		return fmt.Errorf("not ready: %w", ctx.Err())
	}
}

// setup brings the segment under test and rxe up.
func (g *Guest) setup(ctx context.Context) error {
	script := fmt.Sprintf(`set -e
echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_dad
/usr/bin/ip link set eth0 mtu %d txqueuelen 10000 up
/usr/bin/ip addr add %s/24 dev eth0
/usr/bin/ip -6 addr add %s/64 dev eth0 nodad
/usr/bin/tc qdisc replace dev eth0 root pfifo limit 10000
/usr/bin/rdma link add %s type rxe netdev eth0
`, mtu, g.Addr4, g.Addr6, g.Dev)
	if _, err := g.Run(ctx, "sh", "-c", script); err != nil {
		return fmt.Errorf("set-up: %w", err)
	}
	return nil
}

// Close ends the guest.
func (g *Guest) Close() {
	g.once.Do(func() {
		if g.cmd != nil && g.cmd.Process != nil {
			_ = g.cmd.Process.Kill()
			select {
			case <-g.exited:
			case <-time.After(killGrace):
			}
		}
		for _, p := range []*ether.Port{g.Port, g.mgmtPort} {
			if p != nil {
				p.Detach()
			}
		}
		g.lab.mu.Lock()
		g.lab.guests = slices.DeleteFunc(g.lab.guests, func(x *Guest) bool { return x == g })
		g.lab.mu.Unlock()
		if g.console != nil {
			g.console.close()
		}
	})
}

// AgentAddr is the address of the verbs agent that StartAgent started, over the management segment.
func (g *Guest) AgentAddr() string { return net.JoinHostPort(g.mgmt, fmt.Sprint(agentPort)) }

// StartAgent starts the verbs agent in the guest.
func (g *Guest) StartAgent(ctx context.Context) (*Proc, error) {
	p, err := g.Start(ctx, Cmd{Argv: []string{"verbsd", "-n", fmt.Sprint(agentPort)}})
	if err != nil {
		return nil, err
	}
	if err := p.WaitOutput(ctx, "listening"); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// console keeps what the guest prints and finds labd's lines in it.
type console struct {
	f      *os.File
	ready  chan struct{}
	failed chan error

	mu    sync.Mutex
	lines []string
}

func newConsole(path string) (*console, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &console{f: f, ready: make(chan struct{}), failed: make(chan error, 1)}, nil
}

func (c *console) run(r io.Reader) {
	br := bufio.NewReaderSize(io.TeeReader(r, c.f), 1<<16)
	ready := false
	for {
		b, err := br.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
		line := strings.TrimSpace(string(b))
		c.mu.Lock()
		if c.lines = append(c.lines, line); len(c.lines) > 2*consoleLines {
			c.lines = c.lines[consoleLines:]
		}
		c.mu.Unlock()
		var fail error
		switch {
		case line == guestproto.ReadyLine && !ready:
			ready = true
			close(c.ready)
		case strings.HasPrefix(line, guestproto.FailLine):
			fail = errors.New(strings.TrimPrefix(line, guestproto.FailLine))
		case strings.Contains(line, panicMark):
			fail = errors.New(line)
		}
		if fail != nil {
			select {
			case c.failed <- fail:
			default:
			}
		}
	}
}

func (c *console) tail(n int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.lines[max(0, len(c.lines)-n):], "\n")
}

func (c *console) close() { c.f.Close() }
