package verbs

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

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/stretchr/testify/require"
)

// nextAddr numbers the loopback addresses that tests take. Port 4791 is the
// only one, so every device needs an address of its own, also between test
// processes that run at once: the process picks a /24 of 127/8.
var nextAddr atomic.Uint32

func loopback4() netip.Addr {
	h := fnv.New32a()
	_ = binary.Write(h, binary.LittleEndian, int64(os.Getpid()))
	n := h.Sum32()>>16<<8 | nextAddr.Add(1)&0xFF
	return netip.AddrFrom4([4]byte{127, byte(n>>16) | 1, byte(n >> 8), byte(n)})
}

// testContext bounds what would otherwise hang; no test depends on its length.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// end is a device with one of each object, on one side of a test.
type end struct {
	d   *Device
	pd  *PD
	cq  *CQ
	qp  *QP
	mr  *MR
	buf []byte
}

func openDevice(t testing.TB, cfg Config) *Device {
	free := cfg.Link == nil && len(cfg.Addrs) == 0
	if free {
		cfg.Addrs = []netip.Addr{loopback4()}
	}
	d, err := Open(cfg)
	for range 9 { // of another process, or of a descriptor that a process being forked has a copy of
		if !free || !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
		cfg.Addrs = []netip.Addr{loopback4()}
		d, err = Open(cfg)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func newEnd(t testing.TB, d *Device, bufBytes int, init QPInitAttr) *end {
	e := &end{d: d, buf: make([]byte, bufBytes)}
	var err error
	e.pd, err = d.AllocPD()
	require.NoError(t, err)
	e.cq, err = d.CreateCQ(1024, nil)
	require.NoError(t, err)
	e.mr, err = e.pd.RegisterMR(e.buf, AccessAll, nil)
	require.NoError(t, err)
	if init.Type == 0 {
		init.Type = RC
	}
	init.SendCQ = e.cq
	e.qp, err = e.pd.CreateQP(init)
	require.NoError(t, err)
	return e
}

// withTimeout returns the default attributes of a connection with another ACK timeout.
func withTimeout(code ib.TimeoutCode, retries uint8) *ConnAttr {
	c := DefaultConnAttr()
	c.Timeout, c.RetryCnt = code, retries
	return &c
}

// withMTU returns the default attributes of a connection with another path MTU.
func withMTU(m ib.MTU) *ConnAttr {
	c := DefaultConnAttr()
	c.MTU = m
	return &c
}

// only returns the attributes that were given, if any.
func only(attr []*ConnAttr) *ConnAttr {
	if len(attr) == 0 {
		return nil
	}
	return attr[0]
}

func connect(t testing.TB, a, b *end, attr ...*ConnAttr) {
	require.NoError(t, a.qp.Connect(b.qp.LocalInfo(0), only(attr)))
	require.NoError(t, b.qp.Connect(a.qp.LocalInfo(0), only(attr)))
}

// pair opens two connected devices on loopback.
func pair(t testing.TB, bufBytes int, cfg Config, attr ...*ConnAttr) (a, b *end) {
	ca, cb := cfg, cfg
	a = newEnd(t, openDevice(t, ca), bufBytes, QPInitAttr{})
	b = newEnd(t, openDevice(t, cb), bufBytes, QPInitAttr{})
	connect(t, a, b, attr...)
	return a, b
}

// wait returns the next completion, which must be a success.
func (e *end) wait(t testing.TB, ctx context.Context) WC {
	var wcs [1]WC
	_, err := e.cq.Wait(ctx, wcs[:])
	require.NoError(t, err)
	require.NoError(t, WCError(&wcs[0]))
	return wcs[0]
}

// see makes visible to this goroutine what the device of e wrote for its peer, and to the device
// what this goroutine wrote: a one-sided operation makes no completion that would.
func (e *end) see() { e.qp.State() }

// variants are the ways to run a pair over UDP.
var variants = map[string]Config{
	"event":      {},
	"no gso":     {UDP: udp.Options{DisableGSO: true}},
	"no gro":     {UDP: udp.Options{DisableGRO: true}},
	"no offload": {UDP: udp.Options{DisableGSO: true, DisableGRO: true}},
	"no spin":    {Spin: -1},
}
