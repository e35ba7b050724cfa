package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// Figures of rping.
const (
	pingPort     = 7174
	pingSize     = 64
	minPingSize  = 26 // room for "rdma-ping-2147483647: " and more
	maxPingSize  = 64<<10 - 1
	pingSQ       = 16 // send queue
	pingRQ       = 2
	pingBacklog  = 3
	pingFirst    = 'A' // the letters behind the number go from here
	pingLast     = 'z'
	pingMaxCount = 1<<31 - 1
)

// ping is rping.
type ping struct {
	dev        tool.DeviceOptions
	addr       string
	source     string
	port       int
	size       int
	count      int // 0: for ever
	client     bool
	server     bool
	persistent bool
	verbose    bool
	validate   bool
	debug      bool
	ownQP      bool // the QP is connected by the tool instead of by the ID
	keepAlive  time.Duration
}

func newPing() program {
	return &ping{port: pingPort, size: pingSize, keepAlive: roce.DefaultKeepAlive}
}

func (p *ping) device() *tool.DeviceOptions { return &p.dev }

func (p *ping) usage() []string {
	return []string{"-s [-vVd] [-S size] [-C count] [-a addr] [-p port]",
		"-c [-vVd] [-S size] [-C count] [-I addr] -a addr [-p port]"}
}

func (p *ping) options() []getopt.Option {
	return []getopt.Option{
		{Short: 'c', Help: "client", Set: getopt.Bool(&p.client)},
		{Short: 's', Help: "server", Set: getopt.Bool(&p.server)},
		{Short: 'a', Arg: "addr", Help: "address of the server; on the server, to listen on",
			Set: getopt.String(&p.addr)},
		{Short: 'I', Arg: "addr", Help: "address to connect from", Set: getopt.String(&p.source)},
		{Short: 'p', Arg: "port", Help: "RDMA-CM port (default 7174)", Set: getopt.Int(&p.port, 0, 65535)},
		{Short: 'S', Arg: "bytes", Help: "size of the data (default 64)",
			Set: getopt.Int(&p.size, minPingSize, maxPingSize)},
		{Short: 'C', Arg: "n", Help: "number of pings (default: no end)", Set: getopt.Int(&p.count, 0, pingMaxCount)},
		{Short: 'v', Help: "print the data", Set: getopt.Bool(&p.verbose)},
		{Short: 'V', Help: "compare the data", Set: getopt.Bool(&p.validate)},
		{Short: 'd', Help: "say what happens", Set: getopt.Bool(&p.debug)},
		{Short: 'P', Help: "the server goes on, with any number of clients at a time", Set: getopt.Bool(&p.persistent)},
		{Short: 'q', Help: "connect the queue pair by hand", Set: getopt.Bool(&p.ownQP)},
		{Short: 't', Arg: "ignored", Set: getopt.Ignore},
	}
}

func (p *ping) check() error {
	switch {
	case p.client == p.server:
		return &getopt.Error{Option: "-c/-s", Reason: "one of them is needed"}
	case p.client && p.addr == "":
		return &getopt.Error{Option: "-a", Reason: "the client needs the server's address"}
	}
	return nil
}

func (p *ping) run(ctx context.Context, env *tool.Env) (err error) {
	addr, err := lookup(ctx, p.addr)
	if err != nil {
		return err
	}
	source, err := lookup(ctx, p.source)
	if err != nil {
		return err
	}
	local, peer := source, addr
	if p.server {
		local, peer = addr, netip.Addr{}
	}
	s, err := open("rping", env, &p.dev, local, peer)
	if err != nil {
		return err
	}
	defer func() {
		if e := s.close(); err == nil {
			err = e
		}
	}()
	if p.server {
		return p.serve(ctx, s, addr)
	}
	return p.connect(ctx, s, on(source, 0), on(addr, p.port))
}

// param is what the originals say about a connection.
func (p *ping) param() rdmacm.ConnParam {
	c := rdmacm.DefaultConnParam()
	c.ResponderResources, c.InitiatorDepth, c.FlowControl = 1, 1, false
	return c
}

// pinger is one connection.
type pinger struct {
	p      *ping
	s      *side
	ch     *rdmacm.EventChannel
	id     *rdmacm.ID
	cq     *verbs.CQ
	qp     *verbs.QP
	ctl    *verbs.MR // a message to receive, and one to send
	data   *verbs.MR // what the server reads into and writes from; the client's sink
	source *verbs.MR // what the client has the server read
	wcs    [pingSQ]verbs.WC
	got    bool
	done   bool // a READ or WRITE has completed
	flush  bool
	probes bool          // a probe is on its way
	gone   chan struct{} // closed when the connection is over
	peer   pingInfo
}

// IDs of work requests.
const (
	wrRecv = 1 + iota
	wrSend
	wrData
	wrProbe
)

// newPinger makes everything that a connection needs, with a receive posted.
func newPinger(p *ping, s *side, id *rdmacm.ID, ch *rdmacm.EventChannel) (_ *pinger, err error) {
	c := &pinger{p: p, s: s, id: id, ch: ch, gone: make(chan struct{})}
	defer func() {
		if err != nil {
			_ = c.free() // the first error counts
		}
	}()
	if c.cq, err = s.dev.CreateCQ(2*pingSQ, nil); err != nil {
		return nil, err
	}
	a := verbs.QPInitAttr{Type: verbs.RC, SendCQ: c.cq,
		Caps: verbs.QPCaps{MaxSendWR: pingSQ, MaxRecvWR: pingRQ, MaxSendSGE: 1, MaxRecvSGE: 1}}
	if p.ownQP {
		if c.qp, err = s.pd.CreateQP(a); err == nil {
			err = c.qp.ToInit(verbs.LocalWrite | roce.RemoteRead | roce.RemoteWrite)
		}
	} else {
		c.qp, err = id.CreateQP(s.pd, a)
	}
	if err != nil {
		return nil, err
	}
	if c.ctl, err = s.pd.RegisterMR(make([]byte, 2*pingInfoBytes), verbs.LocalWrite, nil); err != nil {
		return nil, err
	}
	const remote = verbs.LocalWrite | roce.RemoteRead | roce.RemoteWrite
	if c.data, err = s.pd.RegisterMR(make([]byte, p.size), remote, nil); err != nil {
		return nil, err
	}
	if p.client {
		if c.source, err = s.pd.RegisterMR(make([]byte, p.size), remote, nil); err != nil {
			return nil, err
		}
	}
	return c, c.postRecv()
}

func (c *pinger) free() error {
	var first error
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	if c.qp != nil {
		keep(c.qp.Close())
	}
	if c.cq != nil {
		keep(c.cq.Close())
	}
	for _, mr := range []*verbs.MR{c.ctl, c.data, c.source} {
		if mr != nil {
			keep(mr.Close())
		}
	}
	return first
}

func (c *pinger) debugf(format string, args ...any) {
	if c.p.debug {
		c.s.printf(format+"\n", args...)
	}
}

func (c *pinger) postRecv() error {
	return c.qp.PostRecv(&verbs.RecvWR{ID: wrRecv, SGList: []verbs.SGE{c.ctl.SGE(0, pingInfoBytes)}})
}

// send sends a message: where mr is, or, from the server, no matter what.
func (c *pinger) send(mr *verbs.MR) error {
	if mr != nil {
		info := pingInfo{addr: mr.Addr(), rkey: uint32(mr.RKey()), size: uint32(c.p.size)}
		info.put(c.ctl.Bytes()[pingInfoBytes:])
		c.debugf("RDMA addr %x rkey %x len %d", info.addr, info.rkey, info.size)
	}
	return c.qp.PostSend(&verbs.SendWR{
		ID: wrSend, Opcode: verbs.WRSend, Flags: verbs.SendSignaled,
		SGList: []verbs.SGE{c.ctl.SGE(pingInfoBytes, pingInfoBytes)},
	})
}

// errFlushed says that the connection is over.
var errFlushed = errors.New("the connection has ended")

// watch takes the events of the connection until it is over, and then fails the
// queue pair if the ID does not do it.
func (c *pinger) watch(ctx context.Context) {
	defer close(c.gone)
	for {
		e, err := next(ctx, c.ch)
		if err != nil {
			return
		}
		c.debugf("cma_event type %v", e.Type)
		switch e.Type {
		case rdmacm.EventEstablished, rdmacm.EventTimewaitExit:
			continue
		case rdmacm.EventDisconnected:
			c.s.remark("%s DISCONNECT EVENT...", c.role())
		default:
			c.s.remark("cma event %v, error %d", e.Type, status(e))
		}
		c.fail()
		return
	}
}

// fail flushes a queue pair of the tool's own; the ID does it with its own.
func (c *pinger) fail() {
	if c.p.ownQP {
		_ = c.qp.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState) // it can be in ERR already
	}
}

func (c *pinger) role() string {
	if c.p.client {
		return "client"
	}
	return "server"
}

// run exchanges data and hangs up. It returns errFlushed if the peer was faster.
func (c *pinger) run(ctx context.Context, exchange func(context.Context) error) error {
	watch, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go c.watch(watch)
	err := exchange(ctx)
	if err == nil || !errors.Is(err, errFlushed) {
		c.fail()
		err = errors.Join(err, c.id.Disconnect(nil))
	}
	linger := time.NewTimer(lingerTime)
	defer linger.Stop()
	select {
	case <-c.gone:
	case <-linger.C:
		c.s.remark("the peer does not confirm the end of the connection")
		stop()
		<-c.gone
	}
	return err
}

// await waits until the flag is set, and clears it.
func (c *pinger) await(ctx context.Context, flag *bool) error {
	for !*flag {
		if c.flush {
			return errFlushed
		}
		n, err := c.wait(ctx)
		if errors.Is(err, errIdle) {
			err = c.probe()
		}
		if err != nil {
			return err
		}
		for i := range c.wcs[:n] {
			if err := c.complete(&c.wcs[i]); err != nil {
				return err
			}
		}
	}
	*flag = false
	return nil
}

// errIdle ends a wait in which nothing happened for the time of keepAlive.
var errIdle = errors.New("nothing happens")

// wait waits for completions, but not for ever.
func (c *pinger) wait(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.p.keepAlive, errIdle)
	defer cancel()
	return wait(ctx, c.cq, c.wcs[:])
}

// probe finds a peer that was killed, and had nobody to say so for it, while it is
// its turn: a WRITE of nothing, which the peer's adapter acknowledges.
func (c *pinger) probe() error {
	if c.probes {
		return nil
	}
	c.probes = true
	return c.qp.PostSend(&verbs.SendWR{ID: wrProbe, Opcode: verbs.WRWrite, Flags: verbs.SendSignaled})
}

func (c *pinger) complete(wc *verbs.WC) error {
	switch {
	case wc.Status == verbs.WCFlushErr:
		c.flush = true
		return nil
	case wc.Status != verbs.WCSuccess:
		return failed(wc)
	}
	switch wc.ID {
	case wrRecv:
		c.debugf("recv completion")
		if wc.ByteLen != pingInfoBytes {
			return fmt.Errorf("received a message of %d bytes instead of %d", wc.ByteLen, pingInfoBytes)
		}
		c.peer.decode(c.ctl.Bytes())
		c.got = true
		return c.postRecv()
	case wrSend:
		c.debugf("send completion")
	case wrData:
		c.debugf("rdma completion")
		c.done = true
	case wrProbe:
		c.probes = false
	}
	return nil
}
