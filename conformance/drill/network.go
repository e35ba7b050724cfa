package drill

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/roce/verbs"
)

// PeerConfig describes a target that packets reach over a network.
type PeerConfig struct {
	Name    string
	Profile Profile
	Peer    peer.Peer
	// Local and Stranger are addresses of the drill: UDP port 4791 must be free there. Stranger may
	// be empty.
	Local, Stranger map[peer.Family]netip.Addr
	// Link, if set, opens the link that the drill's packets take, at all of those addresses;
	// without it they take UDP sockets. The link is closed with the target, and must not have the
	// option RxeFlush: drills make their ICRCs.
	Link func(addrs []netip.Addr) (link.Link, error)
	// Place, if set, runs a function where the addresses are: in another network namespace.
	Place func(func() error) error
	// RxeFlush is set if the peer wants FLUSH with rxe's ICRC.
	RxeFlush bool
	// Silence is the least time to listen before it is believed that nothing comes; 0 is
	// DefaultSilence.
	Silence time.Duration
	// Listen has the peer accept connections of RDMA-CM, or answer lookups, and returns the port
	// and what ends it; nil if it cannot.
	Listen func(t peer.Type) (port int, stop func() error, err error)
	// Uplink is Bench.Uplink; nil if the peer's machine cannot be told.
	Uplink func(most int) error
}

// DefaultSilence is how long a target that is real is listened to before it is believed to be
// silent.
const DefaultSilence = 60 * time.Millisecond

// NewPeer returns a target for a peer that a network leads to. Close closes the drill's sockets;
// the peer stays the caller's.
func NewPeer(cfg PeerConfig) (Target, error) {
	if cfg.Silence == 0 {
		cfg.Silence = DefaultSilence
	}
	t := &network{cfg: cfg, from: map[peer.Family]netip.Addr{}}
	for f := range cfg.Local {
		t.from[f] = cfg.Peer.Addr(f)
	}
	open := func() (err error) {
		t.wire, err = openWire(cfg.Link, cfg.Local[peer.V4], cfg.Local[peer.V6], cfg.Stranger[peer.V4],
			cfg.Stranger[peer.V6])
		return err
	}
	var err error
	if cfg.Place != nil {
		err = cfg.Place(open)
	} else {
		err = open()
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

type network struct {
	cfg  PeerConfig
	from map[peer.Family]netip.Addr
	wire *wire
	end  func() error // closes the peer, if it is the target's
}

func (t *network) Name() string     { return t.cfg.Name }
func (t *network) Profile() Profile { return t.cfg.Profile }

func (t *network) Close() error {
	err := t.wire.Close()
	if t.end != nil {
		err = errors.Join(err, t.end())
	}
	return err
}

func (t *network) Has(f Feature) bool {
	switch f {
	case NeedFlush:
		return t.cfg.Peer.Caps().Flush
	case NeedAtomicWrite:
		return t.cfg.Peer.Caps().AtomicWrite
	case NeedWindow:
		return true
	case NeedCM:
		return t.cfg.Listen != nil
	case NeedIPv6:
		return t.cfg.Local[peer.V6].IsValid()
	case NeedStranger:
		return t.cfg.Stranger[peer.V4].IsValid()
	case NeedFlowLabel:
		// A link hands up no label. This module's udp link leaves it to the kernel.
		return t.cfg.Link == nil && t.cfg.Profile != Goroce
	case NeedUplink:
		return t.cfg.Uplink != nil
	case quirkRxeFlush:
		return t.cfg.RxeFlush
	}
	return false
}

func (t *network) Open(ctx context.Context) (Bench, error) {
	t.wire.drain()
	return &networkBench{ctx: ctx, t: t, start: t.wire.now()}, nil
}

type networkBench struct {
	ctx   context.Context
	t     *network
	start time.Duration
	stop  []func() error
	shut  bool // the uplink drops
}

func (b *networkBench) Session() (peer.Session, error)    { return b.t.cfg.Peer.Open(b.ctx) }
func (b *networkBench) Peer(f peer.Family) netip.Addr     { return b.t.from[f] }
func (b *networkBench) Local(f peer.Family) netip.Addr    { return b.t.cfg.Local[f] }
func (b *networkBench) Stranger(f peer.Family) netip.Addr { return b.t.cfg.Stranger[f] }
func (b *networkBench) Now() time.Duration                { return b.t.wire.now() - b.start }
func (b *networkBench) Send(d Datagram) error             { return b.t.wire.send(d) }

func (b *networkBench) Silence(asked time.Duration) time.Duration {
	return max(asked, b.t.cfg.Silence)
}

func (b *networkBench) Recv(within time.Duration) (Datagram, bool, error) {
	d, ok, err := b.t.wire.recv(b.t.from, within)
	d.At -= b.start
	return d, ok, err
}

// awaitSlice is how long done may block at a time.
const awaitSlice = 20 * time.Millisecond

func (b *networkBench) Await(within time.Duration, done func(time.Duration) (bool, error)) error {
	for left := patience(within); ; {
		last, before := left.over(), time.Now()
		if ok, err := done(min(left.turn(), awaitSlice)); ok || err != nil || last {
			return err
		}
		// done may not wait by itself.
		t := time.NewTimer(min(max(time.Millisecond-time.Since(before), 0), left.turn()))
		select {
		case <-b.ctx.Done():
			t.Stop()
			return b.ctx.Err()
		case <-t.C:
		}
		left.took(time.Since(before))
	}
}

func (b *networkBench) Listen(t peer.Type) (int, error) {
	if b.t.cfg.Listen == nil {
		return 0, errors.New("drill: the peer has no RDMA-CM")
	}
	port, stop, err := b.t.cfg.Listen(t)
	if err != nil {
		return 0, err
	}
	b.stop = append(b.stop, stop)
	return port, nil
}

func (b *networkBench) Uplink(most int) error {
	if b.t.cfg.Uplink == nil {
		return errors.New("drill: the peer's machine cannot be told to drop packets")
	}
	b.shut = true // also if it fails half-way
	err := b.t.cfg.Uplink(most)
	b.shut = most > 0 || err != nil
	return err
}

func (b *networkBench) Close() error {
	var errs []error
	if b.shut {
		errs = append(errs, b.Uplink(0))
	}
	for _, f := range b.stop {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// UDPConfig says where NewUDP puts its ends. Port 4791 must be free at all addresses.
type UDPConfig struct {
	Peer, Local, Stranger map[peer.Family]netip.Addr
}

// LoopbackUDP are addresses that every Linux machine has, for IPv4. They depend on the process, so
// that several runs do not meet.
func LoopbackUDP() UDPConfig {
	n := os.Getpid()
	at := func(last byte) map[peer.Family]netip.Addr {
		return map[peer.Family]netip.Addr{peer.V4: netip.AddrFrom4([4]byte{127, 128 + byte(n>>8)&0x7f, byte(n), last})}
	}
	return UDPConfig{at(1), at(2), at(3)}
}

// NewUDP returns the target "udp": this module's device on the udp link, and the drill at another
// address of this machine. It needs no privilege.
func NewUDP(cfg UDPConfig) (Target, error) {
	var addrs []netip.Addr
	for _, f := range []peer.Family{peer.V4, peer.V6} {
		if a := cfg.Peer[f]; a.IsValid() {
			addrs = append(addrs, a)
		}
	}
	// Packets leave one by one, as the scripts have them, and not as messages apart (see package
	// transport).
	l, err := udp.Open(addrs, udp.Options{DisableGSO: true})
	if err != nil {
		return nil, err
	}
	dev, err := verbs.Open(verbs.Config{Addrs: addrs, Link: l})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	p := peer.GoroceOn(dev, peer.GorocePlace{Addr4: cfg.Peer[peer.V4], Addr6: cfg.Peer[peer.V6], Link: "udp"})
	t, err := NewPeer(PeerConfig{
		Name: "udp", Profile: Goroce, Peer: p, Local: cfg.Local, Stranger: cfg.Stranger,
		Listen: func(t peer.Type) (int, func() error, error) { return background(dev, cfg.Peer[peer.V4], t) },
	})
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	t.(*network).end = p.Close
	return t, nil
}

// background runs a listener with a goroutine of its own.
func background(dev *verbs.Device, at netip.Addr, t peer.Type) (int, func() error, error) {
	l := &listener{dev: dev, at: at}
	port, err := l.listen(t)
	if err != nil {
		return 0, nil, errors.Join(err, l.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		for {
			e, err := l.events.Get(ctx)
			if ctx.Err() != nil {
				done <- nil
				return
			}
			if err == nil {
				err = l.handle(e)
			}
			if err != nil {
				done <- fmt.Errorf("drill: listener: %w", err)
				return
			}
		}
	}()
	return port, func() error {
		cancel()
		return errors.Join(<-done, l.Close())
	}, nil
}
