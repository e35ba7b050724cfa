package xdp

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goroce/goroce/roce/internal/rtnl"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/endpoint"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/transport/edge"
)

const needsHint = "the xdp link needs CAP_NET_ADMIN, CAP_BPF and CAP_NET_RAW: run as root, or setcap cap_net_admin,cap_bpf,cap_net_raw+ep on the program, or use the udp link, which needs nothing"

// Link is the xdp link; see the package comment. It is a [link.Link].
type Link struct {
	opts Options
	face
	local endpoint.Local

	ifaces  []*iface
	byIndex map[int]*iface
	names   string // of the modes

	tx sender
	rx receiver

	// mu guards what Close removes against concurrent calls.
	mu   sync.Mutex
	gone bool
}

type face = endpoint.Face

var _ link.Link = (*Link)(nil)

// Open attaches to the interfaces of the addresses. The error is a [*link.OpenError] that says what
// to do or, for an invalid option, a [*edge.ArgError].
func Open(o Options) (*Link, error) {
	l := &Link{opts: o, byIndex: make(map[int]*iface)}
	l.face = l.local.Face()
	if err := l.open(); err != nil {
		_ = l.release()
		return nil, err
	}
	return l, nil
}

// check checks the options and fills in defaults.
func (o *Options) check() error {
	o.RxFrames = cmp.Or(o.RxFrames, defaultRxFrames)
	o.TxFrames = cmp.Or(o.TxFrames, defaultTxFrames)
	for name, n := range map[string]int{"RxFrames": o.RxFrames, "TxFrames": o.TxFrames} {
		if n < minFrames || n > maxFrames || n&(n-1) != 0 {
			return &edge.ArgError{Op: "open", Arg: name,
				Why: fmt.Sprintf("%d is no power of two from %d to %d", n, minFrames, maxFrames)}
		}
	}
	return sockio.CheckOption("Queues", o.Queues, maxQueues)
}

func (l *Link) open() (err error) {
	if err := l.opts.check(); err != nil {
		return err
	}
	err = l.local.Open(endpoint.Options{
		Name: "xdp", Addrs: l.opts.Addrs, Port: l.opts.Port, VLAN: l.opts.VLAN,
		HopsChanged: l.hopsChanged, LinkChanged: l.linkChanged, Listen: l.listen,
	})
	if err != nil {
		return err
	}
	for _, index := range l.local.Indexes() {
		if l.byIndex[index] == nil {
			k, _ := l.local.Hops.Link(index)
			f, err := openIface(l, k)
			if err != nil {
				return err
			}
			l.mu.Lock()
			l.byIndex[index] = f
			l.mu.Unlock()
			l.ifaces = append(l.ifaces, f)
		}
	}
	var names []string
	for _, f := range l.ifaces {
		if s := f.mode.String(); !slices.Contains(names, s) {
			names = append(names, s)
		}
	}
	l.names = strings.Join(names, ", ")
	if err := l.local.Begin(func(index int) int { return l.byIndex[index].longest() }, l.opts.MTU); err != nil {
		return err
	}
	l.tx.init(l)
	l.rx.init(l)
	return nil
}

// hopsChanged is called when destinations have become reachable or unreachable.
func (l *Link) hopsChanged() {
	if l.tx.unresolved.Changed() {
		l.Wake()
	}
}

// linkChanged is called when an interface has changed.
func (l *Link) linkChanged(k rtnl.Link, gone bool) {
	l.mu.Lock()
	f := l.byIndex[k.Index]
	detached, last := false, false
	if f != nil && !l.gone && f.program != nil {
		// If it fails, packets to the new address pass to the stack and are lost.
		_ = f.program.setStation(k.MAC, l.opts.VLAN)
		if gone || f.detached() {
			f.lost.Store(true)
		}
		detached, last = f.lost.Load(), true
		for _, other := range l.byIndex {
			last = last && other.lost.Load()
		}
	}
	l.mu.Unlock()
	l.local.State.Changed(k, gone || detached) // such an interface receives nothing
	if detached && last {
		l.fail(&DetachedError{Interface: k.Name})
	}
}

// listen makes packets to a group redirected, or no longer.
func (l *Link) listen(group netip.Addr, index int, on bool) error {
	return l.byIndex[index].program.listen(group, on)
}

// Returned returns a datagram that came back; see [link.Link].
func (l *Link) Returned() edge.Returned { return l.local.Returned() }

// SourcePort returns the source port of packets on a path.
func (l *Link) SourcePort(p *edge.Path) uint16 { return cmp.Or(p.SrcPort, l.local.Port()) }

// Join makes packets to a multicast group redirected.
func (l *Link) Join(group, local netip.Addr) error { return l.local.Join(group, local) }

// Leave undoes one Join.
func (l *Link) Leave(group, local netip.Addr) error { return l.local.Leave(group, local) }

// Capabilities says what is on; Mode is how the link is attached.
func (l *Link) Capabilities() link.Capabilities {
	return link.Capabilities{Name: "xdp", Mode: l.names, ICRCBits: 32, ECN: true,
		RecvBufferBytes: l.opts.RxFrames * chunkBytes, SendBufferBytes: l.opts.TxFrames * chunkBytes,
		// Of one queue: all packets of a peer may come by that.
		Room: edge.Room{Size: l.opts.RxFrames * chunkBytes, PerPacket: chunkBytes, PerByte: 1}}
}

// Stats returns the counters.
func (l *Link) Stats() link.Stats {
	var s link.Stats
	l.tx.stats.Read(&s)
	l.rx.readStats(&s)
	return s
}

// Wake makes Wait return.
func (l *Link) Wake() { l.local.Waker.Wake() }

// fail makes the link unusable: the ownership of frames got mixed up, so further packets could
// contain anything.
func (l *Link) fail(err error) {
	if l.local.Life.Fail(err) {
		l.Wake()
	}
}

// Wait blocks in ppoll. See [link.Link].
func (l *Link) Wait(timeout time.Duration) error {
	if err := l.local.Life.Err(); err != nil {
		return err
	}
	if l.tx.unresolved.Due() {
		return nil // the sending side has something to do
	}
	r := &l.rx
	if l.tx.blocked.Load() && (timeout < 0 || timeout > retryEvery) {
		timeout = retryEvery
	}
	l.local.Waker.Worked(r.split.Work() + l.tx.stats.Work())
	if err := l.local.Waker.Poll(r.fds, timeout); err != nil {
		l.fail(err)
		return err
	}
	if l.local.Waker.Stuck() {
		l.checkSockets()
	}
	return nil
}

// Close detaches from the interfaces.
func (l *Link) Close() error {
	if !l.local.Life.Close() {
		return nil
	}
	return l.release()
}

func (l *Link) release() error {
	errs := []error{l.local.Stop()}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rx.keepStats()
	l.gone = true
	for _, f := range l.ifaces {
		errs = append(errs, f.shut())
	}
	return errors.Join(append(errs, l.local.Close())...)
}
