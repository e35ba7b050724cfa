package xdp

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/cilium/ebpf"
	bpflink "github.com/cilium/ebpf/link"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/rtnl"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/frame"
)

// mode is a way of attaching to an interface.
type mode struct {
	native   bool // in the driver, rather than in the stack (generic)
	zeroCopy bool
	multi    bool // frames in several buffers
}

func (m mode) String() string {
	s := "generic"
	if m.native {
		s = "native"
	}
	if m.zeroCopy {
		s += " zero-copy"
	} else {
		s += " copy"
	}
	if m.multi {
		s += " multi-buffer"
	}
	return s
}

// modes returns the ways to try, best first. If the interface's frames do not fit a buffer,
// multi-buffer is worth more than zero copy: without it the path MTU is bounded.
func (o *Options) modes(fits bool) []mode {
	all := []mode{
		{true, true, true}, {true, false, true}, {false, false, true},
		{true, true, false}, {true, false, false}, {false, false, false},
	}
	if fits {
		all = []mode{
			{true, true, true}, {true, true, false}, {true, false, true}, {true, false, false},
			{false, false, true}, {false, false, false},
		}
	}
	var out []mode
	for _, m := range all {
		if m.native && o.DisableNative || m.zeroCopy && o.DisableZeroCopy || m.multi && o.DisableMultiBuffer {
			continue
		}
		out = append(out, m)
	}
	return out
}

// iface is an interface that the link is attached to.
type iface struct {
	l        *Link
	index    int
	name     string
	loopback bool
	mode     mode
	program  *program
	attached bpflink.Link
	queues   []*queue
	senders  int         // how many of the queues may send
	lost     atomic.Bool // it is detached, for good
}

// openIface attaches to an interface in the best way that works.
func openIface(l *Link, k rtnl.Link) (*iface, error) {
	f := &iface{l: l, index: k.Index, name: k.Name, loopback: k.Flags&unix.IFF_LOOPBACK != 0}
	fits := k.MTU+frame.EthernetBytes+frame.VLANTagBytes <= rxChunkBytes
	var tried []string
	for _, m := range l.opts.modes(fits) {
		err := f.try(m, k)
		if err == nil {
			return f, nil
		}
		f.shut()
		if hint := f.hint(err); hint != "" {
			return nil, &link.OpenError{Hint: hint, Err: fmt.Errorf("interface %s, %v: %w", k.Name, m, err)}
		}
		tried = append(tried, fmt.Sprintf("%v: %v", m, err))
	}
	return nil, &link.OpenError{Hint: "use the packet or the udp link",
		Err: fmt.Errorf("interface %s takes no AF_XDP: %s", k.Name, strings.Join(tried, "; "))}
}

// hint explains errors that another mode would not avoid.
func (f *iface) hint(err error) string {
	var verifier *ebpf.VerifierError
	switch {
	case errors.As(err, &verifier):
		return ""
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return needsHint
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EEXIST):
		return fmt.Sprintf("another program, perhaps another goroce, has an XDP program on %s or a socket on its queues: see `ip link show %s`", f.name, f.name)
	case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM):
		return "the UMEM is locked memory: raise the limit (ulimit -l), or give CAP_IPC_LOCK, or ask for fewer frames"
	case errors.Is(err, unix.ENODEV):
		return "is the interface in another network namespace?"
	case errors.Is(err, unix.EAFNOSUPPORT):
		return "this kernel has no AF_XDP (CONFIG_XDP_SOCKETS): use the packet or the udp link"
	}
	return ""
}

// try attaches in one mode; if it fails, shut undoes what it has done.
func (f *iface) try(m mode, k rtnl.Link) (err error) {
	f.mode = m
	rx, tx := queueCounts(f.name)
	if n := f.l.opts.Queues; n > 0 {
		rx = min(rx, n)
	}
	if rx > maxQueues {
		return &link.OpenError{Hint: "use fewer (ethtool -L), or steer the traffic and set Queues",
			Err: fmt.Errorf("%s has %d receive queues, the link serves %d", f.name, rx, maxQueues)}
	}
	if f.program, err = load(&programConfig{
		port: f.l.local.Port(), loopback: f.loopback, frags: m.multi, queues: rx,
	}); err != nil {
		return fmt.Errorf("load program: %w", err)
	}
	if err := f.program.setStation(k.MAC, f.l.opts.VLAN); err != nil {
		return err
	}
	for _, a := range f.l.local.Addrs() {
		if f.loopback || !a.IsLoopback() {
			if err := f.program.listen(a, true); err != nil {
				return err
			}
		}
	}
	// The kernel detaches the program when the descriptor is closed, by Close or by the death of
	// the process.
	if f.attached, err = attach(f.program.prog, f.index, m.native); err != nil {
		return fmt.Errorf("attach program: %w", err)
	}
	flags := uint16(unix.XDP_USE_NEED_WAKEUP)
	if m.zeroCopy {
		flags |= unix.XDP_ZEROCOPY
	} else {
		flags |= unix.XDP_COPY
	}
	if m.multi {
		flags |= unix.XDP_USE_SG
	}
	for id := range rx {
		q, err := openQueue(f, id, flags)
		if err != nil {
			return err
		}
		f.queues = append(f.queues, q)
	}
	f.senders = min(rx, tx)
	for _, q := range f.queues {
		// From here on packets arrive.
		if err := f.program.sockets.Put(uint32(q.id), uint32(q.fd)); err != nil {
			return fmt.Errorf("XSKMAP: %w", err)
		}
	}
	return nil
}

// detached reports whether the program was taken off the interface. The kernel does not let another
// program replace it, but a privileged process can detach it.
func (f *iface) detached() bool {
	info, err := f.attached.Info()
	return err == nil && off(info)
}

// shut detaches and closes everything.
func (f *iface) shut() error {
	var errs []error
	if f.attached != nil {
		// Closing is not enough: a process that is just being forked has a copy of the descriptor
		// until it runs its program. If detaching is forbidden by now, closing must do.
		_ = f.attached.Detach()
		errs = append(errs, f.attached.Close())
	}
	for _, q := range f.queues {
		errs = append(errs, q.close())
	}
	if f.program != nil {
		f.program.close()
	}
	f.attached, f.queues, f.program = nil, nil, nil
	return errors.Join(errs...)
}

// longest returns the longest IP packet that can be handled, in bytes.
func (f *iface) longest() int {
	if f.mode.multi {
		return maxFrameBytes
	}
	return rxChunkBytes - frame.EthernetBytes - frame.VLANTagBytes
}

// sender returns the queue for a flow: each flow keeps its queue.
func (f *iface) sender(srcPort uint16) *queue {
	return f.queues[int(uint32(srcPort)*0x9E3779B1>>16)%f.senders]
}
