package verbs

import (
	"context"
	"math"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/stretchr/testify/require"
)

// Arguments that no program should pass are refused with an error that can be
// told apart, none makes the device panic or stop, and afterwards it works.
func TestMisuse(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, 4096, Config{})
	far := newEnd(t, openDevice(t, Config{}), 4096, QPInitAttr{})
	ch, err := far.d.CreateCompletionChannel()
	require.NoError(t, err)
	mw1, err := a.pd.AllocMW(mem.Type1)
	require.NoError(t, err)
	mw2, err := a.pd.AllocMW(mem.Type2A)
	require.NoError(t, err)
	farMW, err := far.pd.AllocMW(mem.Type2A)
	require.NoError(t, err)
	farSRQ, err := far.pd.CreateSRQ(SRQAttr{})
	require.NoError(t, err)
	srq, err := a.pd.CreateSRQ(SRQAttr{})
	require.NoError(t, err)
	farAH, err := far.pd.CreateAHTo(b.d.GIDs()[0])
	require.NoError(t, err)
	ud := newEnd(t, a.d, 4096, QPInitAttr{Type: UD})
	require.NoError(t, ud.qp.Activate(1))
	two := func(_ any, err error) error { return err }
	tooLong := -1
	if fourGiB := int64(1 << 32); math.MaxInt > math.MaxInt32 {
		tooLong = int(fourGiB + 5) // what is left of it in 32 bits would be good
	}

	for name, f := range map[string]func() error{
		"send nil":          func() error { return a.qp.PostSend(nil) },
		"recv nil":          func() error { return a.qp.PostRecv(nil) },
		"SRQ recv nil":      func() error { return srq.PostRecv(nil) },
		"opcode":            func() error { return a.qp.PostSend(&SendWR{Opcode: 255}) },
		"too many elements": func() error { return a.qp.PostSend(&SendWR{Opcode: WRSend, SGList: make([]SGE, 1000)}) },
		"recv elements":     func() error { return a.qp.PostRecv(&RecvWR{SGList: make([]SGE, 1000)}) },
		"4 GiB element": func() error {
			return a.qp.PostSend(&SendWR{Opcode: WRSend, SGList: []SGE{a.mr.SGE(0, tooLong)}})
		},
		"negative element": func() error {
			return a.qp.PostSend(&SendWR{Opcode: WRSend, SGList: []SGE{a.mr.SGE(0, -1)}})
		},
		"inline too large": func() error {
			return a.qp.PostSend(&SendWR{Opcode: WRSend, Flags: SendInline, Inline: make([]byte, 1<<20)})
		},
		"UD without AH":       func() error { return ud.qp.PostSend(&SendWR{Opcode: WRSend}) },
		"UD foreign AH":       func() error { return ud.qp.PostSend(&SendWR{Opcode: WRSend, AH: farAH}) },
		"UD write":            func() error { return ud.qp.PostSend(&SendWR{Opcode: WRWrite}) },
		"bind nil MW":         func() error { return two(a.qp.BindMW(1, nil, a.mr, 0, 8, RemoteRead, 0)) },
		"bind nil MR":         func() error { return two(a.qp.BindMW(1, mw2, nil, 0, 8, RemoteRead, 0)) },
		"bind type 1":         func() error { return two(a.qp.BindMW(1, mw1, a.mr, 0, 8, RemoteRead, 0)) },
		"bind foreign MW":     func() error { return two(a.qp.BindMW(1, farMW, a.mr, 0, 8, RemoteRead, 0)) },
		"bind foreign MR":     func() error { return two(a.qp.BindMW(1, mw2, far.mr, 0, 8, RemoteRead, 0)) },
		"MW bind nil PD":      func() error { return two(mw1.Bind(nil, a.mr, 0, 8, RemoteRead)) },
		"MW bind nil MR":      func() error { return two(mw1.Bind(a.pd, nil, 0, 8, RemoteRead)) },
		"MW bind negative":    func() error { return two(mw1.Bind(a.pd, a.mr, 0, -8, RemoteRead)) },
		"MW bind before":      func() error { return two(mw1.Bind(a.pd, a.mr, -8, 8, RemoteRead)) },
		"MW bind overflow":    func() error { return two(mw1.Bind(a.pd, a.mr, 8, math.MaxInt, RemoteRead)) },
		"MW bind foreign MR":  func() error { return two(mw1.Bind(a.pd, far.mr, 0, 8, RemoteRead)) },
		"MW bind foreign PD":  func() error { return two(mw1.Bind(far.pd, a.mr, 0, 8, RemoteRead)) },
		"MW bind nil MR none": func() error { return two(mw2.Bind(a.pd, nil, 0, 0, RemoteRead)) },
		"bind negative":       func() error { return two(a.qp.BindMW(1, mw2, a.mr, 0, -8, RemoteRead, 0)) },
		"bind before":         func() error { return two(a.qp.BindMW(1, mw2, a.mr, -8, 8, RemoteRead, 0)) },
		"MW bind type 2":      func() error { return two(mw2.Bind(a.pd, a.mr, 0, 8, RemoteRead)) },
		"MW type":             func() error { return two(a.pd.AllocMW(77)) },
		"register nothing":    func() error { return two(a.pd.RegisterMR(nil, 1<<31, nil)) },
		"register IOVA": func() error {
			return two(a.pd.RegisterMR(make([]byte, 9), 0, &MROptions{IOVA: math.MaxUint64 - 3, SetIOVA: true}))
		},
		"reregister PD":      func() error { return a.mr.Reregister(Rereg{PD: far.pd}) },
		"CQ of 0":            func() error { return two(a.d.CreateCQ(0, nil)) },
		"CQ negative":        func() error { return two(a.d.CreateCQ(-1, nil)) },
		"CQ huge":            func() error { return two(a.d.CreateCQ(math.MaxInt, nil)) },
		"CQ foreign channel": func() error { return two(a.d.CreateCQ(1, &CQOptions{Channel: ch})) },
		"CQ resize":          func() error { return a.cq.Resize(-5) },
		"CQ no channel":      func() error { return a.cq.RequestNotify(false) },
		"SRQ negative":       func() error { return two(a.pd.CreateSRQ(SRQAttr{MaxWR: -1})) },
		"SRQ limit":          func() error { return srq.Modify(math.MaxInt, -1) },
		"QP no CQ":           func() error { return two(a.pd.CreateQP(QPInitAttr{Type: RC})) },
		"QP type":            func() error { return two(a.pd.CreateQP(QPInitAttr{Type: 99, SendCQ: a.cq})) },
		"QP foreign CQ":      func() error { return two(a.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: far.cq})) },
		"QP foreign SRQ": func() error {
			return two(a.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: a.cq, SRQ: farSRQ}))
		},
		"QP negative caps": func() error {
			return two(a.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: a.cq, Caps: QPCaps{MaxSendWR: -1}}))
		},
		"QP huge caps": func() error {
			return two(a.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: a.cq, Caps: QPCaps{MaxRecvWR: math.MaxInt}}))
		},
		"AH GID index": func() error {
			return two(a.pd.CreateAH(AddressVector{DGID: b.d.GIDs()[0], SGIDIndex: -1}))
		},
		"AH far GID index": func() error {
			return two(a.pd.CreateAH(AddressVector{DGID: b.d.GIDs()[0], SGIDIndex: 1 << 30}))
		},
		"AH family":     func() error { return two(a.pd.CreateAHTo(ib.GID{0: 0x20, 15: 1})) },
		"modify mask":   func() error { return a.qp.Modify(QPAttr{State: 99}, AttrState) },
		"connect again": func() error { return a.qp.Connect(b.qp.LocalInfo(0), nil) },
		"connect UD":    func() error { return ud.qp.Connect(b.qp.LocalInfo(0), nil) },
		"PD in use":     func() error { return a.pd.Close() },
		"CQ in use":     func() error { return a.cq.Close() },
		"huge buffer":   func() error { return two(MapBuffer(-1, true)) },
		"empty buffer":  func() error { return two(MapBuffer(0, false)) },
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			require.NotPanics(t, func() { err = f() })
			require.Error(t, err)
			t.Log(err)
		})
	}

	require.NoError(t, a.qp.PostSend(&SendWR{
		Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
	}))
	a.wait(t, ctx)
	_, err = a.cq.Poll(nil)
	require.NoError(t, err)
	short, cancel := context.WithCancel(ctx)
	cancel()
	_, err = a.cq.Wait(short, nil)
	require.Error(t, err)
}
