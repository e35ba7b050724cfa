package paths

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/rpc"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/rsocket"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
)

const (
	// messageBytes is what goroce writes and reads at a time, and bulkDepth how many of these it
	// has posted.
	messageBytes = 64 << 10
	bulkDepth    = 128
	// chunkBytes is what streams are written and read in.
	chunkBytes = 256 << 10
	// pingBytes is the length of small messages, of which one is sent each pingEvery, if no more
	// than pingDepth have no answer.
	pingBytes = 64
	pingEvery = 2 * time.Millisecond
	pingDepth = 256
	// mostReads is how many READs may be under way: the device's most, as in perftest.
	mostReads = transport.MaxRdAtomic
	// dialTime bounds the beginning of a round.
	dialTime = 10 * time.Second
)

// What a flow is.
const (
	flowWrite   = "WRITE"
	flowRead    = "READ"
	flowRSocket = "rsocket"
	flowTCP     = "TCP"
	flowQUIC    = "QUIC"
)

// The first byte of a stream.
const (
	streamSink = 's'
	streamEcho = 'e'
)

// end is one end of a round.
type end struct {
	dev     *verbs.Device
	mr      *verbs.MR
	memory  []byte
	bulk    pair
	ping    pair
	remote  Remote
	got     [2]atomic.Int64 // bytes of the flow that is measured, and of the one beside it
	mu      sync.Mutex
	trips   []float64 // us
	failure atomic.Value
}

// pair is a queue pair with a completion queue of its own.
type pair struct {
	qp *verbs.QP
	cq *verbs.CQ
}

// endMain is the process of an end.
func endMain() error {
	s := rpc.NewServer()
	if err := s.RegisterName("End", &EndService{&end{}}); err != nil {
		return err
	}
	s.ServeConn(stdio{os.Stdin, os.Stdout})
	return nil
}

// EndService is what the coordinator can ask of an end.
type EndService struct{ e *end }

// Remote is what an end has to know of the other.
type Remote struct {
	GID  ib.GID
	Addr uint64
	RKey uint32
	QPs  [2][2]uint32 // number and PSN
}

// OpenArgs say which device to open.
type OpenArgs struct {
	Addr    netip.Addr
	Control string // of package cc; "" is the device's default
	// GoBack switches selective repeat off.
	GoBack bool
}

// Open opens a device with two queue pairs.
func (s *EndService) Open(a OpenArgs, r *Remote) (err error) {
	e := s.e
	c := verbs.Config{Addrs: []netip.Addr{a.Addr}}
	c.Tuning.GoBackN = a.GoBack
	if a.Control != "" {
		if c.Tuning.Congestion.Algorithm, err = cc.ParseAlgorithm(a.Control); err != nil {
			return err
		}
	}
	if e.dev, err = verbs.Open(c); err != nil {
		return err
	}
	pd, err := e.dev.AllocPD()
	if err != nil {
		return err
	}
	e.memory = make([]byte, bulkDepth*messageBytes+pingDepth*pingBytes)
	for i := range e.memory {
		e.memory[i] = byte(i * 31 >> 3)
	}
	if e.mr, err = pd.RegisterMR(e.memory, verbs.AccessAll, nil); err != nil {
		return err
	}
	for i, p := range []*pair{&e.bulk, &e.ping} {
		if p.cq, err = e.dev.CreateCQ(4*pingDepth, nil); err != nil {
			return err
		}
		p.qp, err = pd.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: p.cq, Caps: verbs.QPCaps{
			MaxSendWR: pingDepth, MaxRecvWR: pingDepth, MaxSendSGE: 1, MaxRecvSGE: 1,
		}})
		if err != nil {
			return err
		}
		info := p.qp.LocalInfo(0)
		r.GID, r.QPs[i] = info.GID, [2]uint32{uint32(info.QPN), uint32(info.PSN)}
	}
	r.Addr, r.RKey = e.mr.Addr(), uint32(e.mr.RKey())
	return nil
}

// ConnectArgs name the other end.
type ConnectArgs struct {
	Remote
	Timeout ib.TimeoutCode // 0 is the default
}

// Connect connects the queue pairs.
func (s *EndService) Connect(a ConnectArgs, _ *struct{}) error {
	s.e.remote = a.Remote
	for i, p := range []*pair{&s.e.bulk, &s.e.ping} {
		attr := verbs.DefaultConnAttr()
		attr.MaxRdAtomic, attr.MaxDestRdAtomic = mostReads, mostReads
		if a.Timeout != 0 {
			attr.Timeout = a.Timeout
		}
		err := p.qp.Connect(verbs.RemoteInfo{QPN: ib.QPN(a.QPs[i][0]), PSN: ib.PSN(a.QPs[i][1]), GID: a.GID}, &attr)
		if err != nil {
			return err
		}
	}
	return nil
}

// ListenArgs say by what streams are to be taken.
type ListenArgs struct {
	Addr    netip.Addr
	RSocket bool // or TCP
	Control string
	Beside  bool // what comes is of the flow beside the one that is measured
}

// Listen takes streams.
func (s *EndService) Listen(a ListenArgs, at *netip.AddrPort) error {
	e, to := s.e, netip.AddrPortFrom(a.Addr, 0)
	var l net.Listener
	counter := &e.got[0]
	if a.Beside {
		counter = &e.got[1]
	}
	if a.RSocket {
		r, err := (&rsocket.ListenConfig{Device: e.dev}).ListenAddr(to)
		if err != nil {
			return err
		}
		l, *at = r, r.Addr().(rsocket.Addr).AddrPort
	} else {
		lc := net.ListenConfig{Control: congestion(a.Control)}
		t, err := lc.Listen(context.Background(), "tcp", to.String())
		if err != nil {
			return err
		}
		l, *at = t, t.Addr().(*net.TCPAddr).AddrPort()
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go e.serve(c, counter)
		}
	}()
	return nil
}

// congestion chooses TCP's congestion control for a socket.
func congestion(name string) func(string, string, syscall.RawConn) error {
	if name == "" {
		return nil
	}
	return func(_, _ string, c syscall.RawConn) (err error) {
		if e := c.Control(func(fd uintptr) {
			err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
		}); e != nil {
			return e
		}
		return os.NewSyscallError("TCP_CONGESTION "+name, err)
	}
}

// serve does with a stream what its first byte asks for.
func (e *end) serve(c net.Conn, counter *atomic.Int64) {
	defer c.Close()
	b := make([]byte, chunkBytes)
	if _, err := io.ReadFull(c, b[:1]); err != nil {
		return
	}
	if b[0] == streamEcho {
		for {
			if _, err := io.ReadFull(c, b[:pingBytes]); err != nil {
				return
			}
			if _, err := c.Write(b[:pingBytes]); err != nil {
				return
			}
		}
	}
	for {
		n, err := c.Read(b)
		counter.Add(int64(n))
		if err != nil {
			e.fail(err)
			return
		}
	}
}

// fail keeps the first error of a flow.
func (e *end) fail(err error) { e.failure.CompareAndSwap(nil, fmt.Sprint(err)) }

// FlowArgs say what to do.
type FlowArgs struct {
	Kind    string
	To      netip.AddrPort // of streams
	Control string         // of TCP
	Beside  bool           // for ListenArgs
}

// Flow begins a bulk transfer, until the process ends.
func (s *EndService) Flow(a FlowArgs, _ *struct{}) error {
	e := s.e
	if a.Kind == flowWrite || a.Kind == flowRead {
		go func() { e.fail(e.messages(a.Kind == flowRead)) }()
		return nil
	}
	c, err := e.dial(a)
	if err != nil {
		return err
	}
	if _, err := c.Write([]byte{streamSink}); err != nil {
		return err
	}
	go func() {
		b := make([]byte, chunkBytes)
		for i := range b {
			b[i] = byte(i * 31 >> 3)
		}
		for {
			if _, err := c.Write(b); err != nil {
				e.fail(err)
				return
			}
		}
	}()
	return nil
}

func (e *end) dial(a FlowArgs) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	if a.Kind == flowRSocket {
		return (&rsocket.Dialer{Device: e.dev}).DialAddr(ctx, a.To)
	}
	d := net.Dialer{Control: congestion(a.Control)}
	return d.DialContext(ctx, "tcp", a.To.String())
}

// messages keeps messages posted.
func (e *end) messages(read bool) error {
	wrs := [bulkDepth]verbs.SendWR{}
	for i := range wrs {
		wrs[i] = verbs.SendWR{
			ID: uint64(i), Opcode: verbs.WRWrite, Flags: verbs.SendSignaled, RKey: ib.RKey(e.remote.RKey),
			SGList: []verbs.SGE{e.mr.SGE(i*messageBytes, messageBytes)}, RemoteAddr: e.remote.Addr +
				uint64(i*messageBytes),
		}
		if read {
			wrs[i].Opcode = verbs.WRRead
		}
		if err := e.bulk.qp.PostSend(&wrs[i]); err != nil {
			return err
		}
	}
	var wcs [64]verbs.WC
	for {
		n, err := e.bulk.cq.Wait(context.Background(), wcs[:])
		if err != nil {
			return err
		}
		for i := range wcs[:n] {
			if err := verbs.WCError(&wcs[i]); err != nil {
				return err
			}
			e.got[0].Add(messageBytes)
			if err := e.bulk.qp.PostSend(&wrs[wcs[i].ID]); err != nil {
				return err
			}
		}
	}
}

// Ping begins to send small messages, or, without a kind, to answer those of the other queue pair.
func (s *EndService) Ping(a FlowArgs, _ *struct{}) error {
	e := s.e
	if a.Kind == "" || a.Kind == flowWrite || a.Kind == flowRead {
		if err := e.receives(); err != nil {
			return err
		}
		go func() { e.fail(e.answer(a.Kind != "")) }()
		if a.Kind != "" {
			go func() { e.fail(e.ask()) }()
		}
		return nil
	}
	c, err := e.dial(a)
	if err != nil {
		return err
	}
	if _, err := c.Write([]byte{streamEcho}); err != nil {
		return err
	}
	go func() {
		b := make([]byte, pingBytes)
		for {
			if _, err := io.ReadFull(c, b); err != nil {
				e.fail(err)
				return
			}
			e.tripped(b)
		}
	}()
	go func() {
		b := make([]byte, pingBytes)
		for {
			binary.NativeEndian.PutUint64(b, uint64(monotonic()))
			if _, err := c.Write(b); err != nil {
				e.fail(err)
				return
			}
			time.Sleep(pingEvery)
		}
	}()
	return nil
}

// slot is the memory of a small message.
func (e *end) slot(i int) []byte { return e.memory[bulkDepth*messageBytes+i*pingBytes:][:pingBytes] }

// slotSGE is the same for work requests. The first half of the slots is for what comes, and the
// second for what goes.
func (e *end) slotSGE(i int) []verbs.SGE {
	return []verbs.SGE{e.mr.SGE(bulkDepth*messageBytes+i*pingBytes, pingBytes)}
}

const pingSlots = pingDepth / 2

func (e *end) receives() error {
	for i := range pingSlots {
		if err := e.ping.qp.PostRecv(&verbs.RecvWR{ID: uint64(i), SGList: e.slotSGE(i)}); err != nil {
			return err
		}
	}
	return nil
}

// answer sends small messages back, or notes how long they took if they have come back.
func (e *end) answer(back bool) error {
	var wcs [64]verbs.WC
	for {
		n, err := e.ping.cq.Wait(context.Background(), wcs[:])
		if err != nil {
			return err
		}
		for i := range wcs[:n] {
			wc := &wcs[i]
			if err := verbs.WCError(wc); err != nil {
				return err
			}
			if wc.Opcode != verbs.WCRecv {
				continue
			}
			slot := int(wc.ID)
			if back {
				e.tripped(e.slot(slot))
			} else {
				copy(e.slot(pingSlots+slot), e.slot(slot))
				err := e.ping.qp.PostSend(&verbs.SendWR{ID: wc.ID, Opcode: verbs.WRSend,
					Flags: verbs.SendSignaled, SGList: e.slotSGE(pingSlots + slot)})
				if err != nil {
					return err
				}
			}
			if err := e.ping.qp.PostRecv(&verbs.RecvWR{ID: wc.ID, SGList: e.slotSGE(slot)}); err != nil {
				return err
			}
		}
	}
}

// ask sends small messages, unless too many have no answer.
func (e *end) ask() error {
	for i := 0; ; time.Sleep(pingEvery) {
		slot := pingSlots + i%pingSlots
		binary.NativeEndian.PutUint64(e.slot(slot), uint64(monotonic()))
		err := e.ping.qp.PostSend(&verbs.SendWR{
			ID: uint64(i), Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: e.slotSGE(slot),
		})
		if err == nil {
			i++
		} else if e.ping.qp.State() != transport.StateRTS {
			return err
		} // else there is no room: this one is not sent
	}
}

// tripped notes how long a small message took there and back.
func (e *end) tripped(b []byte) {
	took := float64(monotonic()-int64(binary.NativeEndian.Uint64(b))) / 1e3
	e.mu.Lock()
	defer e.mu.Unlock()
	e.trips = append(e.trips, took)
}

// Sample is what an end has done so far.
type Sample struct {
	Ns      int64
	Bytes   [2]int64 // of the flow that is measured, and of the one beside it, where they are counted
	CPU     float64
	Failure string
	Trips   []float64 // sorted, in us, since the sample before
}

// Sample returns it.
func (s *EndService) Sample(_ struct{}, r *Sample) error {
	e := s.e
	r.Ns, r.CPU = monotonic(), cpu()
	for i := range e.got {
		r.Bytes[i] = e.got[i].Load()
	}
	r.Failure, _ = e.failure.Load().(string)
	e.mu.Lock()
	defer e.mu.Unlock()
	r.Trips, e.trips = slices.Sorted(slices.Values(e.trips)), nil
	return nil
}
