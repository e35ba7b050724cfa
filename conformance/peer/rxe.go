package peer

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/verbs"
)

// RXE is the kernel's rdma_rxe in a lab guest.
type RXE struct {
	g     *lab.Guest
	caps  Caps
	gids  map[Family]int
	agent *lab.Proc
}

// NewRXE starts the verbs agent in a guest. The agent ends with ctx or the guest.
func NewRXE(ctx context.Context, g *lab.Guest) (*RXE, error) {
	p := &RXE{g: g, gids: map[Family]int{}}
	var err error
	if p.agent, err = g.StartAgent(ctx); err != nil {
		return nil, err
	}
	c, dev, err := verbs.Dial(ctx, g.AgentAddr(), g.Dev)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var major, minor int
	if _, err := fmt.Sscanf(g.Image.Kernel, "%d.%d", &major, &minor); err != nil {
		return nil, fmt.Errorf("peer: kernel release %q: %w", g.Image.Kernel, err)
	}
	newer := major > 6 || major == 6 && minor >= 12
	p.caps = Caps{
		MaxMsg:      dev.Num("max_msg_sz"),
		Flush:       newer && dev.Num("lib_flush") == 1,
		AtomicWrite: newer && dev.Num("lib_atomic_write") == 1,
	}
	r, err := c.Call("gids")
	if err != nil {
		return nil, err
	}
	for _, s := range r.All("g") {
		f := strings.Split(s, ",")
		a, err := netip.ParseAddr(f[len(f)-1])
		if err != nil || len(f) != 3 || f[1] != "v2" {
			continue
		}
		i, err := strconv.Atoi(f[0])
		if err != nil {
			continue
		}
		switch a.Unmap() {
		case g.Addr4:
			p.gids[V4] = i
		case g.Addr6:
			p.gids[V6] = i
		}
	}
	if len(p.gids) != 2 {
		return nil, fmt.Errorf("peer: %s: GID table %v has not both addresses", g.Name, r.All("g"))
	}
	return p, nil
}

// Name is "rxe" and the kernel's version.
func (p *RXE) Name() string { return "rxe " + p.g.Image.KernelMajorMinor() }

// Link is "rxe".
func (p *RXE) Link() string { return "rxe" }

// Caps tells which of the newer operations kernel and library both have.
func (p *RXE) Caps() Caps { return p.caps }

// PortName is the guest's name.
func (p *RXE) PortName() string { return p.g.Name }

// Guest is where it runs.
func (p *RXE) Guest() *lab.Guest { return p.g }

// GIDIndex is the index of the GID of a family.
func (p *RXE) GIDIndex(f Family) int { return p.gids[f] }

// Addr is the guest's address.
func (p *RXE) Addr(f Family) netip.Addr {
	if f == V6 {
		return p.g.Addr6
	}
	return p.g.Addr4
}

// Open starts a session with the agent.
func (p *RXE) Open(ctx context.Context) (Session, error) {
	c, _, err := verbs.Dial(ctx, p.g.AgentAddr(), p.g.Dev)
	if err != nil {
		return nil, err
	}
	s := &rxeSession{p: p, c: c, ahs: map[string]uint64{}}
	r, err := c.Call("pd")
	if err != nil {
		c.Close()
		return nil, err
	}
	s.pd = r.Num("id")
	return s, nil
}

type rxeSession struct {
	p   *RXE
	c   *verbs.Client
	pd  uint64
	ahs map[string]uint64
}

func (s *rxeSession) Close() error { return s.c.Close() }

func (s *rxeSession) Counters() (map[string]uint64, error) {
	r, err := s.c.Call("counters")
	return r.Map(), err
}

type rxeMR struct {
	s          *rxeSession
	buf, id    uint64
	n          int
	addr       uint64
	lkey, rkey uint32
}

func (s *rxeSession) MR(n int, access Access) (MR, error) {
	b, err := s.c.Call("buf", verbs.Arg{Key: "len", Value: n})
	if err != nil {
		return nil, err
	}
	if !s.p.caps.Flush {
		access &^= AccessFlush
	}
	r, err := s.c.Call("mr", verbs.Arg{Key: "pd", Value: s.pd}, verbs.Arg{Key: "buf", Value: b.Num("id")}, verbs.Arg{Key: "access", Value: uint32(access)})
	if err != nil {
		return nil, err
	}
	return &rxeMR{s: s, buf: b.Num("id"), id: r.Num("id"), n: n, addr: r.Num("addr"), lkey: uint32(r.Num("lkey")), rkey: uint32(r.Num("rkey"))}, nil
}

func (m *rxeMR) Addr() uint64 { return m.addr }
func (m *rxeMR) Len() int     { return m.n }
func (m *rxeMR) LKey() uint32 { return m.lkey }
func (m *rxeMR) RKey() uint32 { return m.rkey }

func (m *rxeMR) Fill(off, n int, seed uint64, base int) error {
	_, err := m.s.c.Call("fill", verbs.Arg{Key: "buf", Value: m.buf}, verbs.Arg{Key: "off", Value: off}, verbs.Arg{Key: "len", Value: n},
		verbs.Arg{Key: "seed", Value: seed}, verbs.Arg{Key: "base", Value: base})
	return err
}

func (m *rxeMR) Check(off, n int, seed uint64, base int) (int, error) {
	r, err := m.s.c.Call("check", verbs.Arg{Key: "buf", Value: m.buf}, verbs.Arg{Key: "off", Value: off}, verbs.Arg{Key: "len", Value: n},
		verbs.Arg{Key: "seed", Value: seed}, verbs.Arg{Key: "base", Value: base})
	if err != nil {
		return 0, err
	}
	bad, err := strconv.Atoi(r.Str("bad"))
	return bad, err
}

func (m *rxeMR) Write(off int, b []byte) error {
	_, err := m.s.c.Call("write", verbs.Arg{Key: "buf", Value: m.buf}, verbs.Arg{Key: "off", Value: off}, verbs.Arg{Key: "hex", Value: hex.EncodeToString(b)})
	return err
}

func (m *rxeMR) Read(off, n int) ([]byte, error) {
	r, err := m.s.c.Call("read", verbs.Arg{Key: "buf", Value: m.buf}, verbs.Arg{Key: "off", Value: off}, verbs.Arg{Key: "len", Value: n})
	if err != nil {
		return nil, err
	}
	return hex.DecodeString(r.Str("hex"))
}

func (m *rxeMR) Dereg() error {
	if _, err := m.s.c.Call("free", verbs.Arg{Key: "mr", Value: m.id}); err != nil {
		return err
	}
	_, err := m.s.c.Call("free", verbs.Arg{Key: "buf", Value: m.buf})
	return err
}

type rxeQP struct {
	s              *rxeSession
	id             uint64
	qpn            uint32
	cfg            QPConfig
	sendCQ, recvCQ uint64
	windows        []uint64
}

// The bits of ibv_qp_create_send_ops_flags for the operations of RC that rxe has in
// every version, and for the two that it has since 6.2.
const (
	opsRC          = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<9
	opsFlush       = 1 << 11
	opsAtomicWrite = 1 << 12
)

func def(v, d int) int {
	if v == 0 {
		return d
	}
	return v
}

func (s *rxeSession) QP(cfg QPConfig) (QP, error) {
	q := &rxeQP{s: s, cfg: cfg}
	sw, rw := def(cfg.MaxSendWR, 64), def(cfg.MaxRecvWR, 64)
	for _, x := range []struct {
		cq *uint64
		n  int
	}{{&q.sendCQ, sw + 1}, {&q.recvCQ, rw + 1}} {
		r, err := s.c.Call("cq", verbs.Arg{Key: "cqe", Value: x.n})
		if err != nil {
			return nil, err
		}
		*x.cq = r.Num("id")
	}
	args := []verbs.Arg{{Key: "pd", Value: s.pd}, {Key: "type", Value: cfg.Type}, {Key: "send_cq", Value: q.sendCQ}, {Key: "recv_cq", Value: q.recvCQ},
		{Key: "max_send_wr", Value: sw}, {Key: "max_recv_wr", Value: rw}, {Key: "max_send_sge", Value: def(cfg.MaxSGE, 4)}, {Key: "max_recv_sge", Value: def(cfg.MaxSGE, 4)}}
	if cfg.Type == RC {
		ops := opsRC
		if s.p.caps.Flush {
			ops |= opsFlush
		}
		if s.p.caps.AtomicWrite {
			ops |= opsAtomicWrite
		}
		if ops != opsRC {
			args = append(args, verbs.Arg{Key: "ops", Value: ops})
		}
	}
	r, err := s.c.Call("qp", args...)
	if err != nil {
		return nil, err
	}
	q.id, q.qpn = r.Num("id"), uint32(r.Num("qpn"))
	access := cfg.Access
	if !s.p.caps.Flush {
		access &^= AccessFlush
	}
	init := []verbs.Arg{{Key: "qp", Value: q.id}, {Key: "state", Value: int(StateInit)}, {Key: "pkey_index", Value: 0}, {Key: "port", Value: 1}}
	if cfg.Type == UD {
		init = append(init, verbs.Arg{Key: "qkey", Value: cfg.QKey})
	} else {
		init = append(init, verbs.Arg{Key: "access", Value: uint32(access)})
	}
	_, err = s.c.Call("modify", init...)
	return q, err
}

func (q *rxeQP) QPN() uint32 { return q.qpn }

// mtuCode is ibv_mtu for a path MTU in bytes.
func mtuCode(n int) (int, error) {
	for i, m := range []int{256, 512, 1024, 2048, 4096} {
		if m == n {
			return i + 1, nil
		}
	}
	return 0, fmt.Errorf("peer: %d is no path MTU", n)
}

// gid returns the GID of an address: IPv4 ones are mapped.
func gid(a netip.Addr) string {
	if a.Is4() {
		return "::ffff:" + a.String()
	}
	return a.String()
}

func (q *rxeQP) Connect(c Conn) error {
	rtr := []verbs.Arg{{Key: "qp", Value: q.id}, {Key: "state", Value: int(StateRTR)}}
	rts := []verbs.Arg{{Key: "qp", Value: q.id}, {Key: "state", Value: int(StateRTS)}, {Key: "sq_psn", Value: c.SQPSN}}
	if q.cfg.Type != UD {
		mtu, err := mtuCode(c.MTU)
		if err != nil {
			return err
		}
		rtr = append(rtr, verbs.Arg{Key: "path_mtu", Value: mtu}, verbs.Arg{Key: "dest_qpn", Value: c.RemoteQPN}, verbs.Arg{Key: "rq_psn", Value: c.RQPSN},
			verbs.Arg{Key: "dgid", Value: gid(c.Remote)}, verbs.Arg{Key: "sgid_index", Value: q.s.p.gids[c.Family]})
	}
	if q.cfg.Type == RC {
		rtr = append(rtr, verbs.Arg{Key: "max_dest_rd_atomic", Value: c.MaxDestRdAtomic}, verbs.Arg{Key: "min_rnr_timer", Value: c.MinRNRTimer})
		rts = append(rts, verbs.Arg{Key: "timeout", Value: c.Timeout}, verbs.Arg{Key: "retry_cnt", Value: c.RetryCnt},
			verbs.Arg{Key: "rnr_retry", Value: c.RNRRetry}, verbs.Arg{Key: "max_rd_atomic", Value: c.MaxRdAtomic})
	}
	if _, err := q.s.c.Call("modify", rtr...); err != nil {
		return err
	}
	_, err := q.s.c.Call("modify", rts...)
	return err
}

func (q *rxeQP) State() (State, error) {
	r, err := q.s.c.Call("query", verbs.Arg{Key: "qp", Value: q.id})
	return State(r.Num("state")), err
}

func sgeArgs(sgl []SGE) []verbs.Arg {
	var out []verbs.Arg
	for _, e := range sgl {
		v := fmt.Sprintf("@%#x:%#x:%d", e.Addr, e.LKey, e.Len)
		if !e.Raw {
			v = fmt.Sprintf("%d:%d:%d", e.MR.(*rxeMR).id, e.Off, e.Len)
		}
		out = append(out, verbs.Arg{Key: "sge", Value: v})
	}
	return out
}

func (q *rxeQP) PostSend(wr SendWR) error {
	args := []verbs.Arg{{Key: "qp", Value: q.id}, {Key: "wr_id", Value: wr.ID}, {Key: "opcode", Value: int(wr.Op)}, {Key: "flags", Value: wr.Flags}}
	args = append(args, sgeArgs(wr.SGL)...)
	add := func(k string, v any) { args = append(args, verbs.Arg{Key: k, Value: v}) }
	switch wr.Op {
	case OpWrite, OpWriteImm, OpRead, OpFlush, OpAtomicWrite, OpCmpSwap, OpFetchAdd:
		add("remote_addr", wr.RemoteAddr)
		add("rkey", wr.RKey)
	}
	switch wr.Op {
	case OpSendImm, OpWriteImm:
		add("imm", wr.Imm)
	case OpSendInv, OpLocalInv:
		add("inv_rkey", wr.InvKey)
	case OpCmpSwap, OpFetchAdd:
		add("compare_add", wr.CompareAdd)
		add("swap", wr.Swap)
	case OpAtomicWrite:
		add("value", binary.LittleEndian.Uint64(wr.Value[:]))
	case OpFlush:
		add("len", wr.FlushLen)
		add("plt", wr.FlushPLT)
		add("sel", wr.FlushSEL)
	}
	if q.cfg.Type == UD {
		ah, err := q.s.ah(wr.Family, wr.Remote)
		if err != nil {
			return err
		}
		add("ah", ah)
		add("remote_qpn", wr.RemoteQPN)
		add("remote_qkey", wr.RemoteQKey)
	}
	_, err := q.s.c.Call("post_send", args...)
	return err
}

// ah returns an address handle, made on first use.
func (s *rxeSession) ah(f Family, a netip.Addr) (uint64, error) {
	key := string(f) + a.String()
	if id, ok := s.ahs[key]; ok {
		return id, nil
	}
	r, err := s.c.Call("ah", verbs.Arg{Key: "pd", Value: s.pd}, verbs.Arg{Key: "dgid", Value: gid(a)}, verbs.Arg{Key: "sgid_index", Value: s.p.gids[f]})
	if err != nil {
		return 0, err
	}
	s.ahs[key] = r.Num("id")
	return s.ahs[key], nil
}

func (q *rxeQP) PostRecv(wr RecvWR) error {
	args := append([]verbs.Arg{{Key: "qp", Value: q.id}, {Key: "wr_id", Value: wr.ID}}, sgeArgs(wr.SGL)...)
	_, err := q.s.c.Call("post_recv", args...)
	return err
}

func (q *rxeQP) PollSend(n int, wait time.Duration) ([]WC, error) { return q.s.poll(q.sendCQ, n, wait) }
func (q *rxeQP) PollRecv(n int, wait time.Duration) ([]WC, error) { return q.s.poll(q.recvCQ, n, wait) }

// kernelWithInv is the kernel's IB_WC_WITH_INVALIDATE, which rxe shows to user space
// unchanged although ibv_wc_flags has another bit for it (seen on 6.1 and 6.12).
const kernelWithInv = 1 << 2

func (s *rxeSession) poll(cq uint64, n int, wait time.Duration) ([]WC, error) {
	list, err := s.c.Poll(cq, n, n, wait)
	if err != nil {
		return nil, err
	}
	var out []WC
	for _, w := range list {
		flags := int(w.Flags)
		if flags&kernelWithInv != 0 {
			flags = flags&^kernelWithInv | WCFlagInv
		}
		out = append(out, WC{ID: w.WRID, Status: Status(w.Status), Opcode: w.Opcode, ByteLen: int(w.ByteLen), QPN: w.QPN, SrcQP: w.SrcQP, Flags: flags, Imm: w.Imm})
	}
	return out, nil
}

func (q *rxeQP) BindWindow(mr MR, off, n int, access Access) (uint32, error) {
	const type2 = 2
	r, err := q.s.c.Call("mw", verbs.Arg{Key: "pd", Value: q.s.pd}, verbs.Arg{Key: "type", Value: type2})
	if err != nil {
		return 0, err
	}
	old := uint32(r.Num("rkey"))
	rkey := old&^0xff | (old+1)&0xff // as ibv_inc_rkey
	_, err = q.s.c.Call("post_send", verbs.Arg{Key: "qp", Value: q.id}, verbs.Arg{Key: "opcode", Value: int(OpBindMW)}, verbs.Arg{Key: "flags", Value: FlagSignaled},
		verbs.Arg{Key: "mw", Value: r.Num("id")}, verbs.Arg{Key: "mr", Value: mr.(*rxeMR).id}, verbs.Arg{Key: "rkey", Value: rkey},
		verbs.Arg{Key: "off", Value: off}, verbs.Arg{Key: "len", Value: n}, verbs.Arg{Key: "access", Value: uint32(access)})
	if err != nil {
		return 0, err
	}
	wc, err := q.PollSend(1, 5*time.Second)
	if err != nil {
		return 0, err
	}
	if len(wc) != 1 || wc[0].Status != Success {
		return 0, fmt.Errorf("peer: bind: %v", wc)
	}
	q.windows = append(q.windows, r.Num("id"))
	return rkey, nil
}

func (q *rxeQP) Close() error {
	for _, x := range []verbs.Arg{{Key: "qp", Value: q.id}, {Key: "cq", Value: q.sendCQ}, {Key: "cq", Value: q.recvCQ}} {
		if _, err := q.s.c.Call("free", x); err != nil {
			return err
		}
	}
	for _, w := range q.windows {
		if _, err := q.s.c.Call("free", verbs.Arg{Key: "mw", Value: w}); err != nil {
			return err
		}
	}
	return nil
}
