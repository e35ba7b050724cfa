package rsocket

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net/netip"
	"syscall"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// attacker is a peer that has a queue pair and no manners.
type attacker struct {
	t    *testing.T
	ctx  context.Context
	id   *rdmacm.ID
	ch   *rdmacm.EventChannel
	cq   *verbs.CQ
	qp   *verbs.QP
	peer connData
}

func newAttacker(t *testing.T, d *verbs.Device) *attacker {
	a := &attacker{t: t, ctx: testContext(t)}
	var err error
	a.ch, err = rdmacm.CreateEventChannel(d)
	require.NoError(t, err)
	a.cq, err = d.CreateCQ(1000, nil)
	require.NoError(t, err)
	return a
}

func (a *attacker) equip(id *rdmacm.ID) {
	pd, err := id.Device().AllocPD()
	require.NoError(a.t, err)
	a.id = id
	a.qp, err = id.CreateQP(pd,
		verbs.QPInitAttr{SendCQ: a.cq, SigAll: true, Caps: verbs.QPCaps{MaxRecvWR: 500, MaxInline: 64}})
	require.NoError(a.t, err)
	for range 400 {
		require.NoError(a.t, a.qp.PostRecv(&verbs.RecvWR{}))
	}
}

// connect sends a request with some private data.
func (a *attacker) connect(d *verbs.Device, to netip.AddrPort, private []byte) {
	id, err := rdmacm.CreateID(a.ch, rdmacm.PortSpaceTCP)
	require.NoError(a.t, err)
	require.NoError(a.t, id.ResolveAddr(netip.AddrPort{}, to))
	_, err = expect(a.ctx, a.ch, rdmacm.EventAddrResolved)
	require.NoError(a.t, err)
	require.NoError(a.t, id.ResolveRoute())
	_, err = expect(a.ctx, a.ch, rdmacm.EventRouteResolved)
	require.NoError(a.t, err)
	a.equip(id)
	require.NoError(a.t, id.Connect(connParam(private)))
}

// write sends a WRITE, with immediate unless it is negative.
func (a *attacker) write(imm int64, to sge, data []byte) {
	wr := verbs.SendWR{Opcode: verbs.WRWrite, Flags: verbs.SendInline, Inline: data, RemoteAddr: to.addr,
		RKey: ib.RKey(to.key)}
	if imm >= 0 {
		wr.Opcode, wr.Imm = verbs.WRWriteImm, uint32(imm)
	}
	require.NoError(a.t, a.qp.PostSend(&wr))
}

func hostileConnData() []byte {
	d := connData{iomap: true, credits: 100, iomaps: 2, list: sge{1 << 20, 1, 2}, data: sge{1 << 30, 2, 1 << 20}}
	var b [connDataBytes]byte
	d.put(&b)
	return b[:]
}

// attack connects an attacker to a listener.
func attack(t *testing.T) (n *network, a *attacker, s *Conn) {
	// Which an attacker does not wait for.
	n = tunedNetwork(t, sim.Config{Seed: 9}, transport.Tuning{MaxUnackedPackets: 256})
	l, err := (&ListenConfig{Device: n.b, Config: Config{IOMaps: 1, RecvQueue: minQueue}}).ListenAddr(
		netip.AddrPortFrom(n.b.Addrs()[0], 7471))
	require.NoError(t, err)
	a = newAttacker(t, n.a)
	a.connect(n.a, l.addr.AddrPort, hostileConnData())
	s, err = l.AcceptConn()
	require.NoError(t, err)
	e, err := expect(a.ctx, a.ch, rdmacm.EventEstablished)
	require.NoError(t, err)
	a.peer, err = parseConnData(e.PrivateData)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	t.Cleanup(func() { s.Close() })
	return n, a, s
}

// What a listener is sent that is no rsocket is refused, and it goes on.
func TestHostileRequests(t *testing.T) {
	n := udpNetwork(t)
	l, err := (&ListenConfig{Device: n.b}).ListenAddr(netip.AddrPortFrom(n.b.Addrs()[0], 7471))
	require.NoError(t, err)
	defer l.Close()
	bad := hostileConnData()
	bad[0] = 2
	for name, private := range map[string][]byte{"nothing": nil, "version": bad,
		"noise": bytes.Repeat([]byte{0xff}, 56), "short": hostileConnData()[:10]} {
		a := newAttacker(t, n.a)
		a.connect(n.a, l.addr.AddrPort, private)
		_, err := expect(a.ctx, a.ch, rdmacm.EventEstablished)
		var r *roce.RejectedError
		require.ErrorAs(t, err, &r, name)
		require.Equal(t, mad.RejectConsumer, r.Reason)
		require.NoError(t, a.id.Close())
	}
	c, err := (&Dialer{Device: n.a}).DialAddr(testContext(t), l.addr.AddrPort)
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// A server that is no rsocket.
func TestHostileReply(t *testing.T) {
	n := udpNetwork(t)
	a := newAttacker(t, n.b)
	lid, err := rdmacm.CreateID(a.ch, rdmacm.PortSpaceTCP)
	require.NoError(t, err)
	at := netip.AddrPortFrom(n.b.Addrs()[0], 7471)
	require.NoError(t, lid.BindAddr(at))
	require.NoError(t, lid.Listen(rdmacm.ListenLimits{}))
	done := make(chan error, 1)
	go func() {
		_, err := (&Dialer{Device: n.a}).DialAddr(testContext(t), at)
		done <- err
	}()
	e, err := expect(a.ctx, a.ch, rdmacm.EventConnectRequest)
	require.NoError(t, err)
	a.equip(e.ID)
	require.NoError(t, e.ID.Accept(connParam([]byte("welcome"))))
	err = <-done
	var p *ProtocolError
	require.ErrorAs(t, err, &p)
	requireOp(t, err, "dial", err)
}

func TestHostileMessages(t *testing.T) {
	grant := func(a *attacker) sge { return a.peer.data }
	for name, f := range map[string]func(a *attacker){
		"length that is not":  func(a *attacker) { a.write(5, grant(a), []byte("four")) },
		"more than granted":   func(a *attacker) { a.write(1<<20, grant(a), nil) },
		"reserved operation":  func(a *attacker) { a.write(int64(immediate(5, 0)), sge{}, nil) },
		"mapping of nowhere":  func(a *attacker) { a.write(int64(immediate(opIOMap, 77)), sge{}, nil) },
		"grant of 3 bytes":    func(a *attacker) { a.write(int64(immediate(opSGL, 1)), a.peer.list, []byte("abc")) },
		"data after SHUTDOWN": func(a *attacker) { a.write(0xe0000002, sge{}, nil); a.write(1, grant(a), []byte("x")) },
		"SEND": func(a *attacker) {
			require.NoError(a.t, a.qp.PostSend(&verbs.SendWR{Opcode: verbs.WRSendImm, Imm: 0}))
		},
		"no credits": func(a *attacker) {
			g := grant(a)
			for range minQueue + 1 {
				a.write(1, g, []byte("x"))
				g.addr++
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, a, s := attack(t)
			f(a)
			err := s.Err()
			for err == nil || err == io.EOF {
				require.NoError(t, a.ctx.Err())
				n.fabric.Step()
				err = s.Err()
			}
			require.ErrorIs(t, err, syscall.EPROTO)
			var p *ProtocolError
			require.ErrorAs(t, err, &p)
			_, err = s.Write([]byte("x"))
			require.ErrorIs(t, err, syscall.EPROTO)
			require.NoError(t, s.Close())
			_, err = expect(a.ctx, a.ch, rdmacm.EventDisconnected)
			require.NoError(t, err, "the peer is told")
		})
	}
}

// Writes to where they must not go end the connection, and change nothing.
func TestHostileWrites(t *testing.T) {
	for name, to := range map[string]func(a *attacker) sge{
		"before the buffer": func(a *attacker) sge { return sge{a.peer.data.addr - 1, a.peer.data.key, 0} },
		"behind it":         func(a *attacker) sge { return sge{a.peer.data.addr + defaultBuffer, a.peer.data.key, 0} },
		"behind the list": func(a *attacker) sge {
			return sge{a.peer.list.addr + grants*sgeBytes + iomapBytes, a.peer.list.key, 0}
		},
		"with another key": func(a *attacker) sge { return sge{a.peer.data.addr, a.peer.list.key, 0} },
	} {
		t.Run(name, func(t *testing.T) {
			_, a, s := attack(t)
			a.write(-1, to(a), []byte("xx"))
			_, err := s.Read(make([]byte, 1))
			require.Error(t, err)
			require.ErrorIs(t, err, syscall.ECONNRESET)
			require.Equal(t, make([]byte, defaultBuffer), s.recv[smallBuffer].mem)
			require.NoError(t, s.Close())
		})
	}
}

// A peer that grants us memory that it does not have harms itself.
func TestHostileGrants(t *testing.T) {
	_, a, s := attack(t)
	var e [sgeBytes]byte
	sge{^uint64(0) - 5, 0x4242, ^uint32(0)}.put(e[:], binary.LittleEndian)
	a.write(int64(immediate(opSGL, 0xffff)), sge{a.peer.list.addr + sgeBytes, a.peer.list.key, 0}, e[:])
	n, err := s.Write(make([]byte, 2*maxSend+3<<20))
	require.Error(t, err)
	var lost *LostError
	require.ErrorAs(t, s.Close(), &lost)
	require.LessOrEqual(t, lost.Bytes, int64(n))
}

// A probe that is due just when the connection is closed leaves alone what is
// being given back, whatever the peer has sent by then.
func TestHostileGrantAfterClose(t *testing.T) {
	n, a, s := attack(t)
	a.write(int64(immediate(opSGL, 1)), sge{a.peer.list.addr + sgeBytes, a.peer.list.key, 0}, make([]byte, sgeBytes))
	n.fabric.RunFor(1e6)
	s.mu.Lock()
	s.closed, s.list.mem = true, nil // as Close and release have it, one after the other
	s.mu.Unlock()
	s.probe()
	require.Equal(t, uint16(100), s.s.snd.limit, "the grant was not looked at")
	require.NoError(t, s.release())
}

// A listener whose device is used up refuses for want of resources, and goes on; a
// client in that place says so.
func TestExhausted(t *testing.T) {
	for _, limit := range []mem.Limits{{PDs: 1}, {Regions: 1}, {Regions: 2}, {Regions: 3}} {
		full := openDevice(t, verbs.Config{MemLimits: limit})
		other := openDevice(t, verbs.Config{})
		l, err := (&ListenConfig{Device: full}).ListenAddr(netip.AddrPortFrom(full.Addrs()[0], 0))
		require.NoError(t, err)
		for range 2 {
			_, err = (&Dialer{Device: other}).DialAddr(testContext(t), l.addr.AddrPort)
			var r *roce.RejectedError
			require.ErrorAs(t, err, &r)
			require.Equal(t, mad.RejectNoResources, r.Reason)
			_, err = (&Dialer{Device: full}).DialAddr(testContext(t), netip.AddrPortFrom(other.Addrs()[0], 1))
			require.ErrorIs(t, err, mem.ErrLimit)
		}
		require.NoError(t, l.Close())
	}
}
