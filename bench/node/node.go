package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/packet"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/roce/link/xdp"
	"github.com/goroce/goroce/roce/verbs"
)

// Node is one end.
type Node struct {
	counter *atomic.Uint64
	mem     *verbs.MappedBuffer
	buf     []byte // all of mem

	dev    *verbs.Device
	pd     *verbs.PD
	cq     *verbs.CQ   // the first of cqs
	cqs    []*verbs.CQ // queue pairs take turns at them
	mr     *verbs.MR
	qps    []*verbs.QP
	peer   Remote
	posted bool // receives are

	locks map[string]float64 // the mutex profile when StartLocks was called

	raw       link.Link
	rawTx     rawSender
	tcpSize   atomic.Int64 // bytes of memory that sinks walk through
	sockets   sockets
	load      load
	computing computing

	stop    context.CancelFunc
	serving sync.WaitGroup
	served  error // why serving ended, if not by Stop
}

func newNode(counter *atomic.Uint64) (*Node, error) {
	m, err := verbs.MapBuffer(RegionBytes, true)
	if err != nil {
		return nil, err
	}
	n := &Node{counter: counter, mem: m, buf: m.Bytes()}
	for i := range n.buf { // touch every page, and with something to sum
		n.buf[i] = byte(i * 31 >> 3)
	}
	return n, nil
}

// LinkArgs say which link to open.
type LinkArgs struct {
	Link      string // "udp", "packet" or "xdp"
	Addr      netip.Addr
	Port      uint16
	NoOffload bool // neither GSO nor GRO
	// Frames is how many frames the xdp link has for receiving, a power of two; 0 is its
	// default. The others have socket buffers of 16 MiB.
	Frames int
}

func openLink(a LinkArgs) (link.Link, error) {
	addrs := []netip.Addr{a.Addr}
	switch a.Link {
	case "udp":
		return opened(udp.Open(addrs, udp.Options{Port: a.Port, DisableGSO: a.NoOffload, DisableGRO: a.NoOffload}))
	case "packet":
		return opened(packet.Open(packet.Options{Addrs: addrs, Port: a.Port, DisableGSO: a.NoOffload}))
	case "xdp":
		return opened(xdp.Open(xdp.Options{Addrs: addrs, Port: a.Port, RxFrames: a.Frames}))
	}
	return nil, fmt.Errorf("no link %q", a.Link)
}

// opened makes no link of one that could not be opened, instead of a pointer that is nil.
func opened[L link.Link](l L, err error) (link.Link, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

// OpenArgs say which device to open.
type OpenArgs struct {
	LinkArgs
	Polling bool
	Spin    time.Duration // of an event-driven device; 0 is the default, negative none
	CQE     int           // of each completion queue
	CQs     int           // completion queues, each on the next completion vector; 0 is 1
	Shards  int           // see verbs.Config; 0 is 1
}

// Open opens a device.
func (n *Node) Open(a OpenArgs, _ *struct{}) error {
	l, err := openLink(a.LinkArgs)
	if err != nil {
		return err
	}
	c := verbs.Config{Addrs: []netip.Addr{a.Addr}, Link: l, Polling: a.Polling, Shards: max(1, a.Shards)}
	c.Spin = a.Spin
	d, err := verbs.Open(c)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	n.dev, n.posted = d, false
	if n.pd, err = d.AllocPD(); err != nil {
		return err
	}
	if d.CompletionVectors() < a.Shards {
		return fmt.Errorf("no %d shards on link %s", a.Shards, a.Link)
	}
	for i := range max(1, a.CQs) {
		cq, err := d.CreateCQ(max(a.CQE, 2*(sendDepth+recvDepth)), &verbs.CQOptions{Vector: i % d.CompletionVectors()})
		if err != nil {
			return err
		}
		n.cqs = append(n.cqs, cq)
	}
	n.cq = n.cqs[0]
	n.mr, err = n.mem.Register(n.pd, verbs.AccessAll, nil)
	return err
}

// Remote is what a node has to know of the other's device.
type Remote struct {
	GID  ib.GID
	Addr uint64
	RKey uint32
	QPs  []End
}

// End is a queue pair of it.
type End struct{ QPN, PSN uint32 }

// QPArgs say which queue pairs to make.
type QPArgs struct{ N, SendWR, RecvWR int }

// AddQPs makes queue pairs, and returns what the other node has to know of them.
func (n *Node) AddQPs(a QPArgs, r *Remote) error {
	for range a.N {
		qp, err := n.pd.CreateQP(verbs.QPInitAttr{
			Type: verbs.RC, SendCQ: n.cqs[len(n.qps)%len(n.cqs)],
			Caps: verbs.QPCaps{MaxSendWR: a.SendWR, MaxRecvWR: a.RecvWR, MaxSendSGE: 1, MaxRecvSGE: 1},
		})
		if err != nil {
			return err
		}
		n.qps = append(n.qps, qp)
		info := qp.LocalInfo(0)
		r.GID = info.GID
		r.QPs = append(r.QPs, End{uint32(info.QPN), uint32(info.PSN)})
	}
	r.Addr, r.RKey = n.mr.Addr(), uint32(n.mr.RKey())
	return nil
}

// ConnectArgs name the other ends of all queue pairs.
type ConnectArgs struct {
	Remote
	MTU ib.MTU
}

// ackTimeout is code 18, 1 s: with ten thousand queue pairs on one link, or a
// machine that is busy, the default of 67 ms expires without a loss.
const ackTimeout ib.TimeoutCode = 18

// Connect connects them.
func (n *Node) Connect(a ConnectArgs, _ *struct{}) error {
	if len(a.QPs) != len(n.qps) {
		return fmt.Errorf("%d queue pairs here, %d there", len(n.qps), len(a.QPs))
	}
	attr := verbs.DefaultConnAttr()
	attr.MTU, attr.Timeout = a.MTU, ackTimeout
	attr.MaxRdAtomic = uint8(n.dev.Attr().MaxQPRdAtomic)
	attr.MaxDestRdAtomic = attr.MaxRdAtomic
	for i, e := range a.QPs {
		err := n.qps[i].Connect(verbs.RemoteInfo{QPN: ib.QPN(e.QPN), PSN: ib.PSN(e.PSN), GID: a.GID}, &attr)
		if err != nil {
			return err
		}
	}
	n.peer = a.Remote
	return nil
}

// Close closes the device and the link of the ceiling.
func (n *Node) Close(struct{}, *struct{}) error {
	err := n.Stop(struct{}{}, nil)
	if n.dev != nil {
		err = errors.Join(err, n.dev.Close())
		n.dev, n.pd, n.cq, n.cqs, n.mr, n.qps = nil, nil, nil, nil, nil, nil
	}
	if n.raw != nil {
		err = errors.Join(err, n.raw.Close())
		n.raw = nil
	}
	return err
}

// serve runs f until Stop.
func (n *Node) serve(f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	n.serving.Add(1)
	go func() {
		defer n.serving.Done()
		if err := f(ctx); err != nil && ctx.Err() == nil {
			n.served = err
		}
	}()
}

// Stop ends what Serve or RawServe began, and returns its error.
func (n *Node) Stop(struct{}, *struct{}) error {
	if n.stop == nil {
		return nil
	}
	n.stop()
	if n.raw != nil {
		n.raw.Wake()
	}
	n.serving.Wait()
	n.stop = nil
	err := n.served
	n.served = nil
	return err
}
