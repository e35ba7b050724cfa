package verbs

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/seeds"
)

// One WRITE on each of very many queue pairs, with an ACK timeout of 1 s, three times: nothing is
// lost, so that no ACK timer expires, and everything is done. (The default of 67 ms is too short to
// assert that where a process may wait for a CPU for longer.) Timers that beat acknowledgements
// which are already there expire by the thousand; one in a hundred may, as a machine can stand
// still for a second.
func TestManyQueuePairs(t *testing.T) {
	n := 10000
	switch {
	case testing.Short():
		n = 500
	case seeds.Race:
		n = 1000
	}
	for _, kind := range []string{"udp", "packet", "xdp"} {
		for _, polling := range []bool{false, true} {
			name := kind + ", event-driven"
			if polling {
				name = kind + ", polling"
			}
			t.Run(name, func(t *testing.T) {
				if testing.Short() && polling != (kind == "packet") {
					t.Skip("-short: each link is polled or event-driven, not both")
				}
				cfg := Config{Polling: polling}
				if kind == "udp" {
					manyQueuePairs(t, openDevice(t, cfg), openDevice(t, Config{}), n)
					return
				}
				net := linktest.NewNet(t, 1500)
				var ds []*Device
				for _, side := range []struct {
					ns *linktest.Namespace
					a  netip.Addr
				}{{net.A, net.A4}, {net.B, net.B4}} {
					cfg.Link = linkIn(t, side.ns, kind, side.a, true)
					ds = append(ds, openDevice(t, cfg))
					cfg.Polling = false // somebody has to move it
				}
				manyQueuePairs(t, ds[0], ds[1], n)
			})
		}
	}
}

func manyQueuePairs(t *testing.T, da, db *Device, n int) {
	a := newEnd(t, da, 4096, QPInitAttr{})
	b := newEnd(t, db, 4096, QPInitAttr{})
	cq, err := da.CreateCQ(n, nil)
	require.NoError(t, err)
	qps := make([]*QP, n)
	for i := range qps {
		caps := QPCaps{MaxSendWR: 1, MaxSendSGE: 1}
		qps[i], err = a.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: cq, Caps: caps})
		require.NoError(t, err)
		peer, err := b.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: b.cq, Caps: caps})
		require.NoError(t, err)
		require.NoError(t, qps[i].Connect(peer.LocalInfo(0), withTimeout(21, 7)))
		require.NoError(t, peer.Connect(qps[i].LocalInfo(0), withTimeout(21, 7)))
	}
	ctx := testContext(t)
	wcs := make([]WC, 64)
	for range 3 {
		for _, qp := range qps {
			require.NoError(t, qp.PostSend(&SendWR{
				Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 64)}, RemoteAddr: b.mr.Addr(),
				RKey: b.mr.RKey(),
			}))
		}
		for got := 0; got < n; {
			k, err := cq.Wait(ctx, wcs)
			require.NoError(t, err)
			for i := range wcs[:k] {
				require.NoError(t, WCError(&wcs[i]))
			}
			got += k
		}
	}
	for _, d := range []*Device{da, db} {
		c := d.Counters()
		require.LessOrEqual(t, c.Timeouts, uint64(n/100))
		require.LessOrEqual(t, c.RetransmittedPkts, c.LossProbes+c.Timeouts)
	}
}
