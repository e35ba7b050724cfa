package verbs

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

// modes are the ways to run a device.
var modes = map[string]func(t *testing.T) *Device{
	"event":   func(t *testing.T) *Device { return openDevice(t, Config{}) },
	"polling": func(t *testing.T) *Device { return openDevice(t, Config{Polling: true}) },
	"sim": func(t *testing.T) *Device {
		l, err := sim.New(sim.Config{}).Link(simAddr(1))
		require.NoError(t, err)
		return openDevice(t, Config{Link: l})
	},
}

// waiters are all calls that wait.
var waiters = map[string]func(ctx context.Context, d *Device, cq *CQ, ch *CompletionChannel) error{
	"CQ.Wait": func(ctx context.Context, _ *Device, cq *CQ, _ *CompletionChannel) error {
		var wcs [4]WC
		_, err := cq.Wait(ctx, wcs[:])
		return err
	},
	"Channel.Get": func(ctx context.Context, _ *Device, _ *CQ, ch *CompletionChannel) error {
		_, err := ch.Get(ctx)
		return err
	},
	"AsyncEvent": func(ctx context.Context, d *Device, _ *CQ, _ *CompletionChannel) error {
		_, err := d.AsyncEvent(ctx)
		return err
	},
}

func eachWaiter(t *testing.T, f func(t *testing.T, d *Device, cq *CQ, wait func(context.Context) error)) {
	for mode, open := range modes {
		for name, wait := range waiters {
			t.Run(mode+"/"+name, func(t *testing.T) {
				d := open(t)
				ch, err := d.CreateCompletionChannel()
				require.NoError(t, err)
				cq, err := d.CreateCQ(10, &CQOptions{Channel: ch})
				require.NoError(t, err)
				f(t, d, cq, func(ctx context.Context) error { return wait(ctx, d, cq, ch) })
			})
		}
	}
}

func TestContextEndsEveryWait(t *testing.T) {
	eachWaiter(t, func(t *testing.T, _ *Device, _ *CQ, wait func(context.Context) error) {
		ctx, cancel := context.WithCancel(context.Background())
		errs := make(chan error)
		for range 3 {
			go func() { errs <- wait(ctx) }()
		}
		cancel()
		for range 3 {
			require.ErrorIs(t, <-errs, context.Canceled)
		}
		require.ErrorIs(t, wait(ctx), context.Canceled, "a context that has ended before")
		ctx, cancel = context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, wait(ctx), context.DeadlineExceeded)
	})
}

func TestCloseEndsEveryWait(t *testing.T) {
	eachWaiter(t, func(t *testing.T, d *Device, _ *CQ, wait func(context.Context) error) {
		errs := make(chan error)
		for range 3 {
			go func() { errs <- wait(context.Background()) }()
		}
		require.NoError(t, d.Close())
		for range 3 {
			err := <-errs
			require.ErrorIs(t, err, ErrClosed)
			require.ErrorIs(t, err, net.ErrClosed)
		}
		require.ErrorIs(t, wait(context.Background()), ErrClosed)
	})
}

func TestCallsAfterClose(t *testing.T) {
	for mode, open := range modes {
		t.Run(mode, func(t *testing.T) {
			d := open(t)
			e := newEnd(t, d, 100, QPInitAttr{})
			srq, err := e.pd.CreateSRQ(SRQAttr{})
			require.NoError(t, err)
			require.NoError(t, d.Close())
			require.NoError(t, d.Close())
			var wcs [1]WC
			for name, f := range map[string]func() error{
				"alloc pd":  func() error { _, err := d.AllocPD(); return err },
				"create cq": func() error { _, err := d.CreateCQ(1, nil); return err },
				"channel":   func() error { _, err := d.CreateCompletionChannel(); return err },
				"poll":      func() error { _, err := e.cq.Poll(wcs[:]); return err },
				"notify":    func() error { return e.cq.RequestNotify(false) },
				"resize":    func() error { return e.cq.Resize(3) },
				"register":  func() error { _, err := e.pd.RegisterMR(e.buf, 0, nil); return err },
				"rereg":     func() error { return e.mr.Reregister(Rereg{SetAccess: true}) },
				"mw":        func() error { _, err := e.pd.AllocMW(WindowType1); return err },
				"create qp": func() error { _, err := e.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: e.cq}); return err },
				"modify":    func() error { return e.qp.ToInit(0) },
				"query":     func() error { _, _, err := e.qp.Query(); return err },
				"post send": func() error { return e.qp.PostSend(&SendWR{}) },
				"batch":     func() error { _, err := e.qp.PostSendBatch(make([]SendWR, 2)); return err },
				"post recv": func() error { return e.qp.PostRecv(&RecvWR{}) },
				"srq":       func() error { _, err := e.pd.CreateSRQ(SRQAttr{}); return err },
				"srq post":  func() error { return srq.PostRecv(&RecvWR{}) },
				"ah":        func() error { _, err := e.pd.CreateAHTo(e.qp.LocalInfo(0).GID); return err },
			} {
				require.ErrorIs(t, f(), net.ErrClosed, name)
			}
			require.NoError(t, e.qp.Close(), "closing what is gone is fine")
			require.Equal(t, StateErr, e.qp.State())
			_ = d.Counters()
			_ = d.Capabilities()
		})
	}
}

// requireNoLoops checks that no device's goroutine is left. One that has said it is over
// may still be about to return.
func requireNoLoops(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); goroutines() != ""; runtime.Gosched() {
		require.True(t, time.Now().Before(end), "%s", goroutines())
	}
}

// goroutines returns the stacks of the goroutines of devices.
func goroutines() string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var out []string
	for _, g := range strings.Split(string(buf), "\n\n") {
		if strings.Contains(g, "roce/internal/shard.(*Shard)") { // runs it, or was created by it
			out = append(out, g)
		}
	}
	return strings.Join(out, "\n\n")
}

// Close in the middle of transfers in both directions: it returns, no
// goroutine is left, and posting ends with an error, not a crash.
func TestCloseDuringTransfer(t *testing.T) {
	for name, cfg := range map[string]Config{"event": {}, "polling": {Polling: true}} {
		t.Run(name, func(t *testing.T) {
			for range 5 {
				a, b := pair(t, 1<<20, cfg)
				if !cfg.Polling { // one that polls has a goroutine when nobody polls
					require.NotEmpty(t, goroutines(), "they would be seen")
				}
				var wg sync.WaitGroup
				started := make(chan struct{}, 4)
				for _, e := range [][2]*end{{a, b}, {b, a}} {
					wg.Go(func() {
						first := true
						for {
							err := e[0].qp.PostSend(&SendWR{
								Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{e[0].mr.SGE(0, 1<<20)},
								RemoteAddr: e[1].mr.Addr(), RKey: e[1].mr.RKey(),
							})
							if errors.Is(err, ErrClosed) {
								return
							}
							if err != nil && !errors.Is(err, ErrQueueFull) && !errors.Is(err, ErrInvalidState) {
								t.Error(err)
								return
							}
							var wcs [8]WC
							_, err = e[0].cq.Poll(wcs[:])
							if errors.Is(err, ErrClosed) {
								return
							}
							if first {
								first = false
								started <- struct{}{}
							}
						}
					})
				}
				<-started
				<-started
				require.NoError(t, a.d.Close())
				require.NoError(t, b.d.Close())
				wg.Wait()
			}
		})
	}
	requireNoLoops(t)
}

func TestPortInUse(t *testing.T) {
	addr := loopback4()
	other, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, ib.UDPPort)))
	require.NoError(t, err)
	_, err = Open(Config{Addrs: []netip.Addr{addr}})
	var oe *OpenError
	require.ErrorAs(t, err, &oe)
	require.Equal(t, addr, oe.Addr)
	require.Contains(t, oe.Hint, "4791")
	t.Log(err)
	require.NoError(t, other.Close())
	d, err := Open(Config{Addrs: []netip.Addr{addr}})
	require.NoError(t, err, "the port is free again")
	require.NoError(t, d.Close())
}

func TestOpenErrors(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"no such address": {Config{Addrs: []netip.Addr{netip.MustParseAddr("198.51.100.77")}}, "ip addr"},
		"wildcard":        {Config{Addrs: []netip.Addr{netip.IPv4Unspecified()}}, "interface"},
		"multicast":       {Config{Addrs: []netip.Addr{netip.MustParseAddr("224.0.0.5")}}, "unicast"},
		"invalid":         {Config{Addrs: []netip.Addr{{}}}, "invalid address"},
		"twice": {Config{
			Addrs: []netip.Addr{netip.MustParseAddr("127.9.9.9"), netip.MustParseAddr("127.9.9.9")},
		}, "twice"},
		"mtu":    {Config{Addrs: []netip.Addr{loopback4()}, MTU: 9}, "MTU"},
		"random": {Config{Addrs: []netip.Addr{loopback4()}, Rand: strings.NewReader("")}, "random"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(c.cfg)
			require.ErrorContains(t, err, c.want)
			t.Log(err)
		})
	}
	requireNoLoops(t)
}
