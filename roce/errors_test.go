package roce

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path"
	"reflect"
	"syscall"
	"testing"

	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/netns"
)

// Whichever package has failed below, an error has the types and kinds of this package, those that
// package net and the operating system have for the same case, and words that say what to do.
func TestErrorVocabulary(t *testing.T) {
	ctx := rocetest.Context(t)
	over, cancel := context.WithCancel(ctx)
	cancel()
	late, cancel := context.WithTimeout(ctx, -1)
	defer cancel()
	two := func(_ any, err error) error { return err }
	f := sim.New(sim.Config{Seed: 1})
	ds := rocetest.SimDevices(t, f, 2)
	at := func(host byte, port uint16) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, host}), port)
	}
	dial := func(to netip.AddrPort) error {
		d := Dialer{ConnConfig: ConnConfig{Device: ds[0]}}
		return two(d.DialAddr(ctx, to))
	}
	listen := func(d *verbs.Device, a netip.AddrPort) (*Listener, error) {
		lc := ListenConfig{ConnConfig: ConnConfig{Device: d}}
		return lc.ListenAddr(a)
	}
	taken, err := listen(ds[1], at(2, 7))
	require.NoError(t, err)
	strict := ListenConfig{ConnConfig: ConnConfig{Device: ds[1]},
		Handshake: func(*ConnRequest) error { return errors.New("no") }}
	no, err := strict.ListenAddr(at(2, 8))
	require.NoError(t, err)
	go func() { _, _ = no.Accept(ctx) }()

	e := rocetest.NewEnd(t, ds[0], 4096, verbs.QPInitAttr{})
	mw, err := e.PD.AllocMW(verbs.WindowType1)
	require.NoError(t, err)
	mr2, err := e.PD.RegisterMR(make([]byte, 64), verbs.LocalWrite|verbs.MWBind, nil)
	require.NoError(t, err)
	_, err = mw.Bind(e.PD, mr2, 0, 8, RemoteRead)
	require.NoError(t, err)
	gone := rocetest.NewEnd(t, ds[0], 64, verbs.QPInitAttr{})
	require.NoError(t, gone.QP.Close())
	require.NoError(t, gone.MR.Close())
	require.NoError(t, gone.CQ.Close())
	require.NoError(t, gone.PD.Close())
	closed := rocetest.SimDevices(t, sim.New(sim.Config{}), 1)[0]
	require.NoError(t, closed.Close())
	srq, err := e.PD.CreateSRQ(verbs.SRQAttr{MaxWR: 1})
	require.NoError(t, err)
	require.NoError(t, srq.PostRecv(&verbs.RecvWR{}))
	ready := rocetest.NewEnd(t, ds[0], 64, verbs.QPInitAttr{})
	require.NoError(t, ready.QP.Connect(verbs.RemoteInfo{GID: ds[1].GIDs()[0], QPN: 5}, nil))
	status := func(s verbs.WCStatus) func() error {
		return func() error { return &OpError{Op: "send", Err: verbs.WCError(&verbs.WC{ID: connOp + 1, Status: s})} }
	}
	small := simDeviceWith(t, sim.New(sim.Config{}),
		verbs.Config{MemLimits: mem.Limits{Regions: 2, RegionBytes: 100, PDs: 2, Windows: 1}})
	spd, err := small.AllocPD()
	require.NoError(t, err)

	type errs = []error
	for name, c := range map[string]struct {
		f    func() error
		is   errs
		not  errs
		arg  string // of an ArgError
		text string
	}{
		"refused": {
			f:    func() error { return dial(at(2, 9)) },
			is:   errs{ErrConnRefused, syscall.ECONNREFUSED},
			not:  errs{ErrUnreachable, syscall.ETIMEDOUT},
			text: "roce: dial 10.0.0.2:9: connection refused: nobody listens there (CM reject: invalid service ID",
		},
		"refused by the program": {
			f:    func() error { return dial(at(2, 8)) },
			not:  errs{ErrConnRefused, syscall.ECONNREFUSED},
			text: "connection refused by the program that listens there",
		},
		"nobody there": {
			f:    func() error { return dial(at(9, 9)) },
			is:   errs{ErrUnreachable, syscall.EHOSTUNREACH, syscall.ETIMEDOUT},
			text: "changes addresses, as NAT does",
		},
		"other family": {
			f:    func() error { return dial(netip.MustParseAddrPort("[2001:db8::1]:1")) },
			is:   errs{ErrNoLocalGID, syscall.ENETUNREACH, ErrInvalidAttr},
			text: "no route: the peer has an IPv6 address, and the device [10.0.0.1]; open the device with an IPv6 address",
		},
		"no route": {
			f:    func() error { return noRoute(t) },
			is:   errs{ErrNoLocalGID, syscall.ENETUNREACH},
			text: "no route to ",
		},
		"no such zone": {
			f:    func() error { return two(Dial(ctx, "[fe80::1%nosuch]:1")) },
			is:   errs{syscall.ENETUNREACH},
			text: `no route: zone "nosuch"`,
		},
		"no such zone to open": {
			f: func() error {
				return two(verbs.Open(verbs.Config{Addrs: []netip.Addr{netip.MustParseAddr("fe80::1%nosuch")}}))
			},
			is:   errs{syscall.EADDRNOTAVAIL},
			text: "roce: open fe80::1%nosuch: no interface nosuch",
		},
		"address in use": {f: func() error { return two(listen(ds[1], at(2, 7))) },
			is: errs{ErrAddrInUse, syscall.EADDRINUSE}},
		"address not local": {f: func() error { return two(listen(ds[1], at(3, 7))) },
			is: errs{ErrAddrNotLocal, syscall.EADDRNOTAVAIL}},
		"no port": {f: func() error { return two(Dial(ctx, "localhost")) }, text: "missing port"},

		"retries used up": {
			f:    status(verbs.WCRetryExcErr),
			is:   errs{ErrUnreachable, syscall.EHOSTUNREACH, syscall.ETIMEDOUT},
			text: "the peer did not acknowledge it",
		},
		"never ready": {f: status(verbs.WCRNRRetryExcErr), is: errs{syscall.ETIMEDOUT},
			not: errs{ErrUnreachable}, text: "no receive posted"},
		"too long for the peer": {
			f: status(verbs.WCRemoteInvReqErr), not: errs{ErrUnreachable},
			text: "the message is longer than the receive that it has posted (RecvBytes",
		},

		"accept, over": {f: func() error { return two(taken.Accept(over)) }, is: errs{context.Canceled}},
		"accept, late": {f: func() error { return two(taken.Accept(late)) },
			is: errs{context.DeadlineExceeded, os.ErrDeadlineExceeded}},
		"wait, over": {f: func() error { return two(e.CQ.Wait(over, make([]verbs.WC, 1))) },
			is: errs{context.Canceled}},
		"closed device": {f: func() error { return two(closed.AllocPD()) },
			is: errs{ErrClosed, net.ErrClosed, fs.ErrClosed}},
		"destroyed QP": {f: func() error { return gone.QP.PostSend(&verbs.SendWR{}) },
			is: errs{verbs.ErrDestroyed, ErrClosed, net.ErrClosed}},
		"destroyed QP 2": {f: func() error { return gone.QP.PostRecv(&verbs.RecvWR{}) },
			is: errs{verbs.ErrDestroyed, ErrClosed}},
		"destroyed QP 3": {f: func() error { return gone.QP.Modify(verbs.QPAttr{}, 0) },
			is: errs{verbs.ErrDestroyed, ErrClosed}},
		"destroyed MR": {f: func() error { return two(gone.MR.ReadAt(nil, 0)) },
			is: errs{verbs.ErrDestroyed, ErrClosed}},
		"destroyed PD": {f: func() error { return two(gone.PD.RegisterMR(nil, 0, nil)) },
			is: errs{verbs.ErrDestroyed, ErrClosed, net.ErrClosed}},
		"PD in use": {f: e.PD.Close, is: errs{ErrBusy, syscall.EBUSY}, not: errs{ErrClosed},
			text: "roce: close PD: in use ("},
		"CQ in use": {f: e.CQ.Close, is: errs{ErrBusy, syscall.EBUSY}},
		"MR in use": {f: mr2.Close, is: errs{ErrBusy, syscall.EBUSY}},
		"state":     {f: func() error { return e.QP.PostSend(&verbs.SendWR{}) }, is: errs{ErrInvalidState}},
		"full":      {f: func() error { return srq.PostRecv(&verbs.RecvWR{}) }, is: errs{verbs.ErrQueueFull}},
		"opcode": {f: func() error { return ready.QP.PostSend(&verbs.SendWR{Opcode: 200}) },
			is: errs{verbs.ErrInvalidOpcode}},
		"elements": {f: func() error { return srq.PostRecv(&verbs.RecvWR{SGList: make([]verbs.SGE, 30)}) },
			is: errs{verbs.ErrTooManySGE}},
		"inline too large": {f: func() error {
			return ready.QP.PostSend(&verbs.SendWR{Flags: verbs.SendInline, Inline: make([]byte, 9)})
		}, is: errs{verbs.ErrInlineTooLarge}},
		"message too long": {
			f: func() error {
				s := verbs.SGE{Length: 1<<32 - 1}
				return ready.QP.PostSend(&verbs.SendWR{SGList: []verbs.SGE{s, s}})
			},
			is: errs{ErrMessageTooLong, syscall.EMSGSIZE},
		},
		"limit of bytes": {
			f:  func() error { return two(spd.RegisterMR(make([]byte, 101), 0, nil)) },
			is: errs{ErrLimit, ErrInvalidAttr}, arg: "Bytes", text: "101 bytes, at most 100",
		},
		"attribute": {f: func() error { return two(ds[0].CreateCQ(-1, nil)) },
			is: errs{ErrInvalidAttr, syscall.EINVAL}, arg: "cqe", text: "-1 is not in 1.."},
		"access": {f: func() error { return two(e.PD.RegisterMR(nil, 1<<31, nil)) },
			is: errs{ErrInvalidAttr}, arg: "Access"},
		"modify": {f: func() error { return e.QP.Modify(verbs.QPAttr{State: verbs.StateRTS}, verbs.AttrState) },
			is: errs{ErrInvalidAttr}, arg: "qp_state"},
		"bind": {f: func() error { return two(mw.Bind(e.PD, mr2, 60, 8, RemoteRead)) },
			is: errs{ErrInvalidAttr}, arg: "Length"},
		"ID state": {f: func() error { return taken.id.Establish() }, is: errs{ErrInvalidState}},
		"short binary": {f: func() error { return new(RemoteMemory).UnmarshalBinary(nil) },
			is: errs{ErrInvalidAttr}, arg: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.f()
			require.Error(t, err)
			t.Log(err)
			requireVocabulary(t, err)
			rocetest.SaysOnce(t, err)
			for _, is := range c.is {
				require.ErrorIs(t, err, is)
			}
			for _, not := range c.not {
				require.NotErrorIs(t, err, not)
			}
			require.Contains(t, err.Error(), c.text)
			if c.arg != "" {
				var a *ArgError
				require.ErrorAs(t, err, &a)
				require.Equal(t, c.arg, a.Arg)
			}
		})
	}
}

// requireVocabulary checks that an error has no type of the packages below.
func requireVocabulary(t testing.TB, err error) {
	t.Helper()
	switch e := err.(type) {
	case nil:
		return
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			requireVocabulary(t, err)
		}
	}
	switch err.(type) {
	case *ArgError, *OpenError:
		requireVocabulary(t, errors.Unwrap(err)) // of whichever package
		return
	}
	switch typeOf := packageOf(err); typeOf {
	case "mem":
		require.IsType(t, mem.Fault(0), err, "a fault says which rule was broken, the other types of mem stay below")
	case "transport", "cm", "link", "udp":
		require.Failf(t, "leaks", "%T: %v", err, err)
	}
	requireVocabulary(t, errors.Unwrap(err))
}

// A listener that was given no address says which family it listens in.
func TestListenUnspecified(t *testing.T) {
	for _, c := range []struct{ local, want string }{
		{"10.0.0.1", "0.0.0.0:80"}, {"fd00::1", "[::]:80"},
	} {
		l, err := sim.New(sim.Config{}).Link(netip.MustParseAddr(c.local))
		require.NoError(t, err)
		d := rocetest.OpenDevice(t, verbs.Config{Link: l})
		listener, err := (&ListenConfig{ConnConfig: ConnConfig{Device: d}}).Listen(rocetest.Context(t), ":80")
		require.NoError(t, err)
		require.Equal(t, c.want, listener.Addr().String())
		require.NoError(t, listener.Close())
	}
}

// packageOf returns the name of the package that has an error's type.
func packageOf(err error) string {
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return path.Base(t.PkgPath())
}

// simDeviceWith opens one device with a configuration of its own.
func simDeviceWith(t testing.TB, f *sim.Fabric, cfg verbs.Config) *verbs.Device {
	l, err := f.Link(rocetest.SimAddr(1))
	require.NoError(t, err)
	cfg.Link = l
	return rocetest.OpenDevice(t, cfg)
}

// noRoute returns the error for an address to which there is no route: none in an
// empty network namespace. Without the privilege for one, on a machine that has a
// default route, there may be no such address; then it is the error as it would be.
func noRoute(t *testing.T) (err error) {
	to := netip.MustParseAddr("192.0.2.1")
	ns, nsErr := netns.New()
	if nsErr != nil {
		if _, err = rdmacm.RouteSource(to); err == nil {
			err = &NoRouteError{Peer: to, Err: syscall.ENETUNREACH}
		}
		return err
	}
	defer ns.Close()
	require.NoError(t, ns.Do(func() { _, err = rdmacm.RouteSource(to) }))
	return err
}
