package verbs

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

func TestPolling(t *testing.T) {
	a, b := pair(t, 1<<20, Config{Polling: true}, withTimeout(20, 7)) // 4 s: threads that poll wait for each other
	// Somebody has to poll for b, or it would not even acknowledge.
	ctx := testContext(t)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		var wcs [1]WC
		for {
			select {
			case <-done:
				return
			default:
			}
			if _, err := b.cq.Poll(wcs[:0]); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i, n := range exerciseSizes {
		fill(a.buf[:n], uint64(i))
		b.see()
		require.NoError(t, a.qp.PostSend(&SendWR{
			Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, n)}, RemoteAddr: b.mr.Addr(),
			RKey: b.mr.RKey(),
		}))
		a.wait(t, ctx)
		b.see()
		require.Equal(t, a.buf[:n], b.buf[:n])
	}
	close(done)
	wg.Wait()
}

func TestManyQPs(t *testing.T) {
	const qps, rounds = 200, 5
	ctx := testContext(t)
	a, b := pair(t, qps*256, Config{})
	type link struct{ a, b *QP }
	var links []link
	for range qps {
		var l link
		var err error
		l.a, err = a.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: a.cq, Caps: QPCaps{MaxSendWR: 8, MaxRecvWR: 8}})
		require.NoError(t, err)
		l.b, err = b.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: b.cq, Caps: QPCaps{MaxSendWR: 8, MaxRecvWR: 8}})
		require.NoError(t, err)
		require.NoError(t, l.a.Connect(l.b.LocalInfo(0), nil))
		require.NoError(t, l.b.Connect(l.a.LocalInfo(0), nil))
		links = append(links, l)
	}
	for r := range rounds {
		fill(a.buf, uint64(r))
		b.see()
		for i, l := range links {
			require.NoError(t, l.a.PostSend(&SendWR{
				ID: uint64(i), Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(i*256, 256)},
				RemoteAddr: b.mr.Addr() + uint64(i*256), RKey: b.mr.RKey(),
			}))
		}
		seen := make(map[uint64]bool)
		for len(seen) < qps {
			wc := a.wait(t, ctx)
			require.False(t, seen[wc.ID])
			seen[wc.ID] = true
			require.Equal(t, links[wc.ID].a.Num(), wc.QPN)
		}
		b.see()
		require.Equal(t, a.buf, b.buf)
	}
}

// A connection to a QP of the same device: packets go through the network.
func TestLoopbackOnOneDevice(t *testing.T) {
	d := openDevice(t, Config{})
	a, b := newEnd(t, d, 1<<16, QPInitAttr{}), newEnd(t, d, 1<<16, QPInitAttr{})
	connect(t, a, b)
	exercise(t, a, b, []int{0, 1, 1 << 16})
}

func TestSeveralAddresses(t *testing.T) {
	x, y, z := loopback4(), loopback4(), loopback4()
	d := openDevice(t, Config{Addrs: []netip.Addr{x, y}})
	e := openDevice(t, Config{Addrs: []netip.Addr{z}})
	require.Equal(t, []ib.GID{ib.GIDFromAddr(x), ib.GIDFromAddr(y)}, d.GIDs())
	for i := range 2 {
		a, b := newEnd(t, d, 1<<16, QPInitAttr{}), newEnd(t, e, 1<<16, QPInitAttr{})
		c := DefaultConnAttr()
		c.SGIDIndex = i
		require.NoError(t, a.qp.Connect(b.qp.LocalInfo(0), &c))
		require.NoError(t, b.qp.Connect(a.qp.LocalInfo(i), nil))
		exercise(t, a, b, []int{1, 50_000})
	}
}

func TestCompletionChannel(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, 4096, Config{})
	ch, err := b.d.CreateCompletionChannel()
	require.NoError(t, err)
	cq, err := b.d.CreateCQ(16, &CQOptions{Channel: ch})
	require.NoError(t, err)
	qp, err := b.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: cq})
	require.NoError(t, err)
	qa, err := a.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: a.cq})
	require.NoError(t, err)
	require.NoError(t, qa.Connect(qp.LocalInfo(0), nil))
	require.NoError(t, qp.Connect(qa.LocalInfo(0), nil))
	require.ErrorIs(t, b.cq.RequestNotify(false), ErrNoChannel)

	var wcs [4]WC
	for i, solicited := range []bool{false, true} {
		require.NoError(t, cq.RequestNotify(solicited))
		for range 2 {
			require.NoError(t, qp.PostRecv(&RecvWR{ID: uint64(i), SGList: []SGE{b.mr.SGE(0, 100)}}))
		}
		// With solicitedOnly the first message makes no event.
		require.NoError(t, qa.PostSend(&SendWR{Opcode: WRSend, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 10)}}))
		require.NoError(t,
			qa.PostSend(&SendWR{Opcode: WRSend, Flags: SendSignaled | SendSolicited, SGList: []SGE{a.mr.SGE(0, 10)}}))
		got, err := ch.Get(ctx)
		require.NoError(t, err)
		require.Same(t, cq, got)
		for n := 0; n < 2; {
			k, err := cq.Wait(ctx, wcs[:])
			require.NoError(t, err)
			n += k
		}
		a.wait(t, ctx)
		a.wait(t, ctx)
	}
	require.NoError(t, qp.Close())
	require.NoError(t, cq.Close())
	require.NoError(t, ch.Close())
	_, err = ch.Get(ctx)
	require.ErrorIs(t, err, ErrClosed)
}

// Several goroutines wait on one queue; each completion wakes exactly one, and none is lost.
func TestManyWaiters(t *testing.T) {
	for _, sim := range []bool{false, true} {
		t.Run(fmt.Sprintf("sim=%v", sim), func(t *testing.T) {
			var a, b *end
			if sim {
				a, b = simPair(t, newFabric(), 4096)
			} else {
				a, b = pair(t, 4096, Config{})
			}
			const waiters, messages = 4, 100
			ctx := testContext(t)
			got := make(chan uint64, messages)
			var wg sync.WaitGroup
			for range waiters {
				wg.Go(func() {
					var wcs [1]WC
					for {
						_, err := a.cq.Wait(ctx, wcs[:])
						if errors.Is(err, ErrClosed) {
							return
						}
						if err != nil {
							t.Error(err)
							return
						}
						got <- wcs[0].ID
					}
				})
			}
			sum := 0
			for i := range messages {
				require.NoError(t, a.qp.PostSend(&SendWR{
					ID: uint64(i), Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 64)},
					RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
				}))
				if i%3 == 2 {
					for range 3 {
						sum += int(<-got)
					}
				}
			}
			sum += int(<-got)
			require.Equal(t, messages*(messages-1)/2, sum)
			require.NoError(t, a.d.Close())
			wg.Wait()
		})
	}
}

func TestUD(t *testing.T) {
	ctx := testContext(t)
	a := newEnd(t, openDevice(t, Config{}), 8192, QPInitAttr{Type: UD})
	b := newEnd(t, openDevice(t, Config{}), 8192, QPInitAttr{Type: UD})
	const qkey = 0x1234
	require.NoError(t, a.qp.Activate(qkey))
	require.NoError(t, b.qp.Activate(qkey))
	ah, err := a.pd.CreateAHTo(b.qp.LocalInfo(0).GID)
	require.NoError(t, err)
	fill(a.buf, 1)
	for _, n := range []int{0, 1, 4096} {
		require.NoError(t, b.qp.PostRecv(&RecvWR{SGList: []SGE{b.mr.SGE(0, 40+n)}}))
		require.NoError(t, a.qp.PostSend(&SendWR{
			Opcode: WRSendImm, Imm: 7, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, n)},
			AH: ah, RemoteQPN: b.qp.Num(), RemoteQKey: qkey,
		}))
		a.wait(t, ctx)
		wc := b.wait(t, ctx)
		require.EqualValues(t, 40+n, wc.ByteLen)
		require.Equal(t, a.qp.Num(), wc.SrcQP)
		require.Equal(t, a.buf[:n], b.buf[40:40+n])
	}
	require.NoError(t, ah.Close())
}

func TestMulticast(t *testing.T) {
	ctx := testContext(t)
	group := ib.GIDFromAddr(netip.MustParseAddr("239.7.7.7"))
	const qkey = 0x1234
	f := newFabric()
	var ends []*end
	for i := range 3 {
		l, err := f.Link(simAddr(i + 1))
		require.NoError(t, err)
		e := newEnd(t, openDevice(t, Config{Link: l}), 4096, QPInitAttr{Type: UD})
		require.NoError(t, e.qp.Activate(qkey))
		require.NoError(t, e.qp.PostRecv(&RecvWR{SGList: []SGE{e.mr.SGE(0, 4096)}}))
		ends = append(ends, e)
	}
	a := ends[0]
	for _, e := range ends[1:] {
		require.NoError(t, e.qp.AttachMulticast(group, 0))
	}
	ah, err := a.pd.CreateAHTo(group)
	require.NoError(t, err)
	fill(a.buf[:100], 1)
	send := func() {
		require.NoError(t, a.qp.PostSend(&SendWR{
			Opcode: WRSend, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 100)},
			AH: ah, RemoteQPN: ib.QPNMulticast, RemoteQKey: qkey,
		}))
		a.wait(t, ctx)
	}
	send()
	for _, e := range ends[1:] {
		require.EqualValues(t, 140, e.wait(t, ctx).ByteLen)
		require.Equal(t, a.buf[:100], e.buf[40:140])
	}
	require.NoError(t, ends[1].qp.DetachMulticast(group, 0))
	require.ErrorIs(t, a.qp.AttachMulticast(a.d.GIDs()[0], 0), ErrInvalidAttr)
	require.ErrorIs(t, a.qp.AttachMulticast(group, 9), ErrInvalidAttr)
}

// groupsLink is a link that counts its joins, and fails to join if told to.
type groupsLink struct {
	link.Link
	fails  error
	joined int
}

func (l *groupsLink) Unwrap() link.Link { return l.Link }

func (l *groupsLink) Join(group, local netip.Addr) error {
	if l.fails != nil {
		return l.fails
	}
	l.joined++
	return l.Link.Join(group, local)
}

func (l *groupsLink) Leave(group, local netip.Addr) error {
	l.joined--
	return l.Link.Leave(group, local)
}

// The engine and the link agree about groups: a group that cannot be joined is not attached, one
// that is attached twice is joined once, and a queue pair that ends leaves its groups.
func TestMulticastJoined(t *testing.T) {
	f := newFabric()
	under, err := f.Link(simAddr(1))
	require.NoError(t, err)
	l := &groupsLink{Link: under, fails: errBroken}
	e := newEnd(t, openDevice(t, Config{Link: l}), 4096, QPInitAttr{Type: UD})
	group := ib.GIDFromAddr(netip.MustParseAddr("239.7.7.7"))
	require.ErrorIs(t, e.qp.AttachMulticast(group, 0), errBroken)
	require.ErrorIs(t, e.qp.DetachMulticast(group, 0), ErrInvalidAttr, "it is not attached")
	l.fails = link.ErrUnsupported
	require.ErrorIs(t, e.qp.AttachMulticast(group, 0), ErrMulticast)
	l.fails = nil
	for range 2 {
		require.NoError(t, e.qp.AttachMulticast(group, 0))
		require.Equal(t, 1, l.joined)
	}
	require.NoError(t, e.qp.DetachMulticast(group, 0))
	require.Zero(t, l.joined)
	require.NoError(t, e.qp.AttachMulticast(group, 0))
	require.NoError(t, e.qp.Close())
	require.Zero(t, l.joined)
}

// Multicast over real sockets on the loopback interface.
func TestMulticastUDP(t *testing.T) {
	ctx := testContext(t)
	a4 := loopback4().As4()
	group := ib.GIDFromAddr(netip.AddrFrom4([4]byte{239, a4[1], a4[2], a4[3]}))
	const qkey = 0x1234
	a := newEnd(t, openDevice(t, Config{}), 4096, QPInitAttr{Type: UD})
	b := newEnd(t, openDevice(t, Config{}), 4096, QPInitAttr{Type: UD})
	for _, e := range []*end{a, b} {
		require.NoError(t, e.qp.Activate(qkey))
		require.NoError(t, e.qp.PostRecv(&RecvWR{SGList: []SGE{e.mr.SGE(0, 4096)}}))
		if err := e.qp.AttachMulticast(group, 0); err != nil {
			t.Skipf("no multicast on the loopback interface: %v", err)
		}
	}
	ah, err := a.pd.CreateAHTo(group)
	require.NoError(t, err)
	fill(a.buf[:100], 1)
	want := string(a.buf[:100])
	require.NoError(t, a.qp.PostSend(&SendWR{
		Opcode: WRSend, SGList: []SGE{a.mr.SGE(0, 100)},
		AH: ah, RemoteQPN: ib.QPNMulticast, RemoteQKey: qkey,
	}))
	for _, e := range []*end{b, a} { // the sender is a member, too
		require.EqualValues(t, 140, e.wait(t, ctx).ByteLen)
		require.Equal(t, want, string(e.buf[40:140]))
	}
	require.NoError(t, b.qp.DetachMulticast(group, 0))
	require.Error(t, b.qp.DetachMulticast(group, 0))
}

func TestSRQ(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, 4096, Config{})
	srq, err := b.pd.CreateSRQ(SRQAttr{MaxWR: 16})
	require.NoError(t, err)
	var qps [2][2]*QP
	for i := range qps {
		qps[i][0], err = a.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: a.cq})
		require.NoError(t, err)
		qps[i][1], err = b.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: b.cq, SRQ: srq})
		require.NoError(t, err)
		require.NoError(t, qps[i][0].Connect(qps[i][1].LocalInfo(0), nil))
		require.NoError(t, qps[i][1].Connect(qps[i][0].LocalInfo(0), nil))
	}
	for i := range 4 {
		require.NoError(t, srq.PostRecv(&RecvWR{ID: uint64(i), SGList: []SGE{b.mr.SGE(i*64, 64)}}))
	}
	require.NoError(t, srq.Modify(3, -1))
	attr, err := srq.Query()
	require.NoError(t, err)
	require.Equal(t, 3, attr.Limit)
	for i := range 4 {
		require.NoError(t,
			qps[i%2][0].PostSend(&SendWR{Opcode: WRSend, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 8)}}))
		a.wait(t, ctx)
		require.EqualValues(t, i, b.wait(t, ctx).ID)
	}
	for {
		ev, err := b.d.AsyncEvent(ctx)
		require.NoError(t, err)
		if ev.Type == EventSRQLimitReached {
			require.Same(t, srq, ev.SRQ)
			break
		}
	}
	require.ErrorIs(t, srq.Close(), ErrBusy)
	require.NoError(t, qps[0][1].Close())
	require.NoError(t, qps[1][1].Close())
	require.NoError(t, srq.Close())
}

func TestMemoryWindow(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, 4096, Config{})
	mw, err := b.pd.AllocMW(WindowType1)
	require.NoError(t, err)
	key, err := mw.Bind(b.pd, b.mr, 100, 50, RemoteWrite)
	require.NoError(t, err)
	require.Equal(t, mw.RKey(), key)
	wr := SendWR{Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 50)},
		RemoteAddr: b.mr.Addr() + 100, RKey: key}
	require.NoError(t, a.qp.PostSend(&wr))
	a.wait(t, ctx)

	mw2, err := b.pd.AllocMW(WindowType2B)
	require.NoError(t, err)
	key, err = b.qp.BindMW(9, mw2, b.mr, 0, 64, RemoteRead, SendSignaled)
	require.NoError(t, err)
	require.Equal(t, WCBindMW, b.wait(t, ctx).Opcode)
	require.Equal(t, key, mw2.RKey())
	wr = SendWR{Opcode: WRRead, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 64)}, RemoteAddr: b.mr.Addr(), RKey: key}
	require.NoError(t, a.qp.PostSend(&wr))
	a.wait(t, ctx)
	require.ErrorIs(t, b.mr.Close(), mem.ErrBusy)

	// Past the end of the window: refused, though the region goes on.
	wr.SGList = []SGE{a.mr.SGE(0, 65)}
	require.NoError(t, a.qp.PostSend(&wr))
	var wcs [1]WC
	_, err = a.cq.Wait(ctx, wcs[:])
	require.NoError(t, err)
	require.Equal(t, WCRemoteAccessErr, wcs[0].Status)
	var se *StatusError
	require.ErrorAs(t, WCError(&wcs[0]), &se)
}

func TestRegistration(t *testing.T) {
	d := openDevice(t, Config{})
	pd, err := d.AllocPD()
	require.NoError(t, err)
	buf, err := MapBuffer(100_000, false)
	require.NoError(t, err)
	mr, err := buf.Register(pd, AccessAll, &MROptions{IOVA: 1 << 40, SetIOVA: true})
	require.NoError(t, err)
	require.EqualValues(t, uint64(1<<40), mr.Addr())
	require.Equal(t, SGE{Addr: 1<<40 + 5, Length: 6, LKey: mr.LKey()}, mr.SGE(5, 6))
	require.ErrorIs(t, buf.Close(), ErrBusy)
	old := mr.RKey()
	require.NoError(t, mr.Reregister(Rereg{SetAccess: true, Access: LocalWrite | RemoteRead}))
	require.NotEqual(t, old, mr.RKey())
	require.ErrorIs(t, pd.Close(), mem.ErrBusy)
	require.NoError(t, mr.Close())
	require.NoError(t, mr.Close())
	require.Zero(t, mr.RKey())
	require.Nil(t, mr.Bytes())
	require.NoError(t, buf.Close())
	require.NoError(t, buf.Close())
	require.Nil(t, buf.Bytes())
	_, err = buf.Register(pd, 0, nil)
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, pd.Close())

	_, err = MapBuffer(0, false)
	require.ErrorIs(t, err, ErrInvalidAttr)
	huge, err := MapBuffer(3<<20, true)
	require.NoError(t, err)
	require.Len(t, huge.Bytes(), 3<<20)
	huge.Bytes()[3<<20-1] = 1
	require.NoError(t, huge.Close())
}

// Memory that is to be of huge pages is of transparent ones where none are reserved.
func TestHugeBuffer(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skip("the kernel has no transparent huge pages")
	}
	b, err := MapBuffer(hugePageBytes, true)
	require.NoError(t, err)
	defer b.Close()
	if b.Huge() {
		t.Skip("huge pages are reserved here")
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	at, err := strconv.ParseUint(fmt.Sprintf("%p", b.Bytes()), 0, 64)
	require.NoError(t, err)
	inside := false
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			inside = from <= at && at < to
		}
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && inside {
			require.Contains(t, strings.Fields(flags), "hg")
			return
		}
	}
	t.Skip("the kernel does not say how memory is mapped")
}

// The encoded form is exactly as long as it says.
func TestRemoteMemoryBinary(t *testing.T) {
	r := RemoteMemory{Addr: 1 << 40, RKey: 0x12345678, Len: 99}
	b, err := r.MarshalBinary()
	require.NoError(t, err)
	require.Len(t, b, RemoteMemoryBytes)
	var back RemoteMemory
	require.ErrorIs(t, back.UnmarshalBinary(b[:len(b)-1]), ErrInvalidAttr)
	require.NoError(t, back.UnmarshalBinary(b))
	require.Equal(t, r, back)
}

// Registering and deregistering one buffer at the same time.
func TestBufferConcurrent(t *testing.T) {
	d := openDevice(t, Config{})
	pd, err := d.AllocPD()
	require.NoError(t, err)
	buf, err := MapBuffer(4096, false)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				mr, err := buf.Register(pd, AccessAll, nil)
				if err == nil {
					err = mr.Close()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, buf.Close())
}

// Closing a device with a buffer registered lets go of the buffer.
func TestBufferOutlivesDevice(t *testing.T) {
	d := openDevice(t, Config{})
	pd, err := d.AllocPD()
	require.NoError(t, err)
	buf, _, err := pd.AllocBuffer(4096, AccessAll)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	buf.Bytes()[0] = 1
	require.NoError(t, buf.Close())
}

func TestObjectsOfAnotherDevice(t *testing.T) {
	f := newFabric()
	a, b := simPair(t, f, 100)
	_, err := a.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: b.cq})
	require.ErrorIs(t, err, ErrInvalidAttr)
	_, err = a.pd.CreateQP(QPInitAttr{Type: RC})
	require.ErrorIs(t, err, ErrInvalidAttr)
	ch, err := b.d.CreateCompletionChannel()
	require.NoError(t, err)
	_, err = a.d.CreateCQ(1, &CQOptions{Channel: ch})
	require.ErrorIs(t, err, ErrInvalidAttr)
	require.ErrorIs(t, a.mr.Reregister(Rereg{PD: b.pd}), ErrInvalidAttr)
	var wcs []WC
	_, err = a.cq.Wait(testContext(t), wcs)
	require.ErrorIs(t, err, ErrInvalidAttr)
	require.ErrorIs(t, a.qp.Connect(RemoteInfo{GID: ib.GIDFromAddr(netip.IPv6Loopback())}, nil), ErrInvalidAttr)
}

// An unreachable peer: the send fails after its retries, in virtual time.
func TestPartition(t *testing.T) {
	f := newFabric()
	a, b := simPair(t, f, 4096)
	f.Partition(simAddr(1), simAddr(2), true)
	require.NoError(t, a.qp.PostSend(&SendWR{
		Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 10)}, RemoteAddr: b.mr.Addr(),
		RKey: b.mr.RKey(),
	}))
	var wcs [1]WC
	_, err := a.cq.Wait(testContext(t), wcs[:])
	require.NoError(t, err)
	require.Equal(t, WCRetryExcErr, wcs[0].Status)
	// 8 timeouts of 67 ms at least: retry_cnt 7.
	require.Greater(t, f.Now(), 8*ib.TimeoutCode(14).Ns()-1)
}

func newFabric() *sim.Fabric { return sim.New(sim.Config{Seed: 3}) }

func TestCloseTwice(t *testing.T) {
	a, b := simPair(t, newFabric(), 100)
	for range 2 {
		require.NoError(t, a.qp.Close())
	}
	require.ErrorIs(t, b.cq.Close(), ErrBusy)
	for range 2 {
		require.NoError(t, a.cq.Close())
	}
	_, err := a.cq.Wait(testContext(t), make([]WC, 1))
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, a.cq.Resize(9), ErrClosed)
}

func TestCQResize(t *testing.T) {
	ctx := testContext(t)
	a, b := simPair(t, newFabric(), 100)
	require.NoError(t, a.cq.Resize(1))
	require.Error(t, a.cq.Resize(0))
	require.NoError(t, a.cq.Resize(5000))
	for range 20 {
		require.NoError(t, a.qp.PostSend(&SendWR{
			Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 10)}, RemoteAddr: b.mr.Addr(),
			RKey: b.mr.RKey(),
		}))
	}
	for range 20 {
		a.wait(t, ctx)
	}
}
