package rdmacm_test

import (
	"sync"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// goodbyes is a link that counts the packets of requests that leave before a DREQ, and behind it.
type goodbyes struct {
	link.Link
	mu            sync.Mutex
	before, after int
	said          bool
}

func (g *goodbyes) Unwrap() link.Link { return g.Link }

func (g *goodbyes) Send(batch []transport.TxPacket) {
	g.mu.Lock()
	for i := range batch {
		var p ib.Packet
		if a, cm := rocetest.CMMessage(&batch[i]); cm {
			g.said = g.said || a == mad.AttrDREQ
		} else if p.Decode(append(batch[i].AppendTo(nil), 0, 0, 0, 0)) != ib.DecodeOK || p.Opcode.Info().Response {
			continue
		} else if g.said {
			g.after++
		} else {
			g.before++
		}
	}
	g.mu.Unlock()
	g.Link.Send(batch)
}

// What was posted before Disconnect leaves before the DREQ, as far as the window lets it. The rest
// is flushed, and nothing is waited for.
func TestDisconnectSendsFirst(t *testing.T) {
	simulated := func(t *testing.T) (c, s verbs.Config) {
		f := sim.New(sim.Config{Seed: 4})
		lc, err := f.Link(rocetest.SimAddr(1))
		require.NoError(t, err)
		ls, err := f.Link(rocetest.SimAddr(2))
		require.NoError(t, err)
		return verbs.Config{Link: lc, Rand: f.Rand()}, verbs.Config{Link: ls, Rand: f.Rand()}
	}
	udp := func(t *testing.T) (c, s verbs.Config) { return }
	for name, x := range map[string]struct {
		open             func(*testing.T) (c, s verbs.Config)
		n, length, least int
	}{
		"sim": {simulated, 5, 100, 5}, "udp": {udp, 5, 100, 5},
		"sim, beyond the window": {simulated, 100, 60000, 1}, "udp, beyond the window": {udp, 100, 60000, 1},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := rocetest.Context(t)
			cc, cs := x.open(t)
			g := &goodbyes{}
			cc.WrapLink = func(l link.Link) (link.Link, error) { g.Link = l; return g, nil }
			c, s := rocetest.NewPeer(t, cc), rocetest.NewPeer(t, cs)
			lid := s.Listen(t, rdmacm.PortSpaceTCP, 0)
			cid := c.Resolve(t, ctx, rdmacm.PortSpaceTCP, lid.LocalAddr())
			c.Connect(t, ctx, cid, s)
			for range x.n {
				require.NoError(t, c.QP.PostSend(&verbs.SendWR{
					Opcode: verbs.WRWrite, SGList: []verbs.SGE{c.MR.SGE(0, x.length)},
					RemoteAddr: s.MR.Addr(), RKey: s.MR.RKey(),
				}))
			}
			require.NoError(t, cid.Disconnect(nil))
			g.mu.Lock()
			require.True(t, g.said)
			require.GreaterOrEqual(t, g.before, x.least)
			g.mu.Unlock()
			s.Next(t, ctx, rdmacm.EventDisconnected)
			c.Next(t, ctx, rdmacm.EventDisconnected)
			g.mu.Lock()
			require.Zero(t, g.after)
			g.mu.Unlock()
		})
	}
}
