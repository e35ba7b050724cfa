// Package rocetest has what tests of the packages on verbs have in common: devices with
// one of each object, and identifiers of the communication manager.
package rocetest

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// nextAddr numbers the loopback addresses that tests take. Port 4791 is the
// only one, so every device needs an address of its own, also between test
// processes that run at once: the process picks a /24 of 127/8.
var nextAddr atomic.Uint32

func Loopback4() netip.Addr {
	h := fnv.New32a()
	_ = binary.Write(h, binary.LittleEndian, int64(os.Getpid()))
	n := h.Sum32()>>16<<8 | nextAddr.Add(1)&0xFF
	return netip.AddrFrom4([4]byte{127, byte(n>>16) | 1, byte(n >> 8), byte(n)})
}

// Context bounds what would otherwise hang; no test depends on its length.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// End is a device with one of each object, on one side of a test.
type End struct {
	D   *verbs.Device
	PD  *verbs.PD
	CQ  *verbs.CQ
	QP  *verbs.QP
	MR  *verbs.MR
	Buf []byte
}

func OpenDevice(t testing.TB, cfg verbs.Config) *verbs.Device {
	free := cfg.Link == nil && len(cfg.Addrs) == 0
	if free {
		cfg.Addrs = []netip.Addr{Loopback4()}
	}
	d, err := verbs.Open(cfg)
	for range 9 { // of another process, or of a descriptor that a process being forked has a copy of
		if !free || !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
		cfg.Addrs = []netip.Addr{Loopback4()}
		d, err = verbs.Open(cfg)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func NewEnd(t testing.TB, d *verbs.Device, bufBytes int, init verbs.QPInitAttr) *End {
	e := &End{D: d, Buf: make([]byte, bufBytes)}
	var err error
	e.PD, err = d.AllocPD()
	require.NoError(t, err)
	e.CQ, err = d.CreateCQ(1024, nil)
	require.NoError(t, err)
	e.MR, err = e.PD.RegisterMR(e.Buf, verbs.AccessAll, nil)
	require.NoError(t, err)
	if init.Type == 0 {
		init.Type = verbs.RC
	}
	init.SendCQ = e.CQ
	e.QP, err = e.PD.CreateQP(init)
	require.NoError(t, err)
	return e
}

// Wait returns the next completion, which must be a success.
func (e *End) Wait(t testing.TB, ctx context.Context) verbs.WC {
	var wcs [1]verbs.WC
	_, err := e.CQ.Wait(ctx, wcs[:])
	require.NoError(t, err)
	require.NoError(t, verbs.WCError(&wcs[0]))
	return wcs[0]
}

// SimAddr is an address of a simulated network.
func SimAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }

// SimDevices opens devices on a simulated network, with one shard if no number is given.
func SimDevices(t testing.TB, f *sim.Fabric, n int, shards ...int) []*verbs.Device {
	shards = append(shards, 1)
	ds := make([]*verbs.Device, n)
	for i := range ds {
		l, err := f.Link(SimAddr(i + 1))
		require.NoError(t, err)
		ds[i] = OpenDevice(t, verbs.Config{Link: l, Rand: f.Rand(), Shards: shards[0]})
	}
	return ds
}

// OpenIPv6 opens a device on ::1, the only IPv6 loopback
// address there is. The port is not 4791, so that other tests do not collide.
func OpenIPv6(t testing.TB, cfg verbs.Config) *verbs.Device {
	cfg.Addrs = []netip.Addr{netip.IPv6Loopback()}
	var d *verbs.Device
	var err error
	// Any free port will do; the first tries depend on the process.
	a4 := Loopback4().As4()
	for i := range 50 {
		cfg.UDP.Port = uint16(20000 + (int(a4[1])<<8+int(a4[2])+i*97)%30000)
		if d, err = verbs.Open(cfg); err == nil {
			break
		}
	}
	if err != nil {
		t.Skipf("no IPv6 loopback: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// Fabric returns the simulated network of a device.
func Fabric(d *verbs.Device) *sim.Fabric {
	l, _ := link.As[*sim.Link](access.Shard(d).Link())
	return l.Fabric()
}
