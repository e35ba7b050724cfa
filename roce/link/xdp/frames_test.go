//go:build linux

package xdp_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/xdp"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// Under load, with few frames and a receiver that at times does not read, so
// that packets are lost, no frame is lost, used twice, or handed up with
// another's bytes; and afterwards everything works as before.
func TestFrames(t *testing.T) {
	t.Parallel()
	for _, native := range []bool{true, false} {
		t.Run(fmt.Sprintf("native %v", native), func(t *testing.T) {
			const rxFrames, txFrames = 32, 8
			_, la, lb := openPair(t, 9000, func(o *xdp.Options) {
				o.RxFrames, o.TxFrames, o.DisableNative = rxFrames, txFrames, !native
			})
			a, b := la.(*xdp.Link), lb.(*xdp.Link)
			p := linktest.NewPath(a, b)
			linktest.Reaches(t, a, b, p)
			r := rand.New(rand.NewPCG(1, 1))
			rx := make([]edge.RxPacket, 5)
			received := func() (n int) {
				k, err := b.Recv(rx)
				require.NoError(t, err) // every ICRC was right, so no bytes were another's
				return k
			}
			idle := func() {
				t.Helper()
				linktest.Drive(t, a, func() bool { return !a.Blocked() })
				for end := time.Now().Add(giveUp); ; {
					// The kernel may still have frames to send under way.
					sending, receiving, err := a.Accounts()
					require.NoError(t, err)
					linktest.Drain(t, b)
					_, bReceiving, err := b.Accounts()
					require.NoError(t, err)
					require.Equal(t, rxFrames, receiving, "A has given all back")
					require.Equal(t, rxFrames, bReceiving, "B has given all back")
					if sending == 0 {
						return
					}
					require.True(t, time.Now().Before(end), "%d chunks do not come back", sending)
					require.NoError(t, a.Wait(time.Millisecond))
				}
			}
			longest := a.MTU().Bytes()
			total := 0
			for round := range 300 {
				batch := make([]edge.TxPacket, 1+r.IntN(3*txFrames))
				for i := range batch {
					batch[i] = linktest.Packet(r, p, []int{0, 64, longest - 396, longest}[r.IntN(4)])
				}
				a.Send(batch)
				linktest.Drive(t, a, func() bool { return !a.Blocked() })
				if round%3 == 0 { // at other times the receiver sleeps, and its frames run out
					total += received()
				}
			}
			idle()
			require.NotZero(t, total)
			require.NotZero(t, b.Stats().RxOverflow, "some were lost for want of frames")
			require.Zero(t, b.Stats().RxICRC+b.Stats().RxMalformed+b.Stats().RxTruncated)
			// Each frame is used many times over, and none is missing.
			for range 4 * rxFrames {
				a.Send([]edge.TxPacket{linktest.Packet(r, p, longest)})
				linktest.Drive(t, a, func() bool { return !a.Blocked() })
				linktest.Receive(t, b, 1)
			}
			idle()
		})
	}
}

// A frame that comes back from the kernel twice is found.
func TestFrameTwice(t *testing.T) {
	t.Parallel()
	_, a, _ := openPair(t, 1500)
	require.ErrorContains(t, a.(*xdp.Link).CompleteTwice(), "this process has it")
}

// Whatever goes wrong with frames, in either direction, ends the link with an
// error instead of a corrupted packet.
func TestFramesMixedUp(t *testing.T) {
	seeds.Slow(t)
	t.Parallel()
	n := linktest.NewNet(t, 1500)
	b := openXDP().Open(t, n.B, n.B4)
	for _, what := range []string{
		"received twice", "received, but to send", "received beyond its chunk", "given back twice",
		"sent, but was not handed over", "sent, but to receive",
	} {
		t.Run(what, func(t *testing.T) {
			const frames = 8
			a := openXDP(func(o *xdp.Options) { o.TxFrames = frames }).Open(t, n.A, n.A4).(*xdp.Link)
			p := linktest.NewPath(a, b)
			linktest.Reaches(t, a, b, p)
			a.Forge(what)
			r := rand.New(rand.NewPCG(3, 3))
			rx := make([]edge.RxPacket, 8)
			var err error
			for end := time.Now().Add(giveUp); err == nil; {
				require.True(t, time.Now().Before(end))
				a.Send([]edge.TxPacket{linktest.Packet(r, p, 64)}) // until frames are taken back
				_, err = a.Recv(rx)
			}
			// Or there is one more than can be, if the kernel has given all back meanwhile.
			require.Regexp(t, "has it|the ring holds", err.Error())
			require.Equal(t, err, a.Wait(-1))
			dropped := a.Stats().TxDropped
			a.Send([]edge.TxPacket{linktest.Packet(r, p, 64)})
			require.Equal(t, dropped+1, a.Stats().TxDropped)
		})
	}
}

// Each receive queue has a socket, flows are spread over the queues for
// sending, and what comes by any of them is received.
func TestQueues(t *testing.T) {
	t.Parallel()
	const queues = 4
	n := linktest.NewNet(t, 4200)
	for _, ns := range []*linktest.Namespace{n.A, n.B} {
		ns.Run("ip", "link", "set", linktest.Device, "down")
	}
	n.A.Run("ip", "link", "del", linktest.Device)
	n.A.Run("ip", "link", "add", linktest.Device, "mtu", "4200", "numrxqueues", "4", "numtxqueues", "4",
		"address", n.MACA, "type", "veth", "peer", "name", linktest.Device, "mtu", "4200", "numrxqueues", "4",
		"numtxqueues", "4", "address", n.MACB, "netns", n.B.Path())
	n.A.Run("ip", "addr", "add", n.A4.String()+"/24", "dev", linktest.Device)
	n.B.Run("ip", "addr", "add", n.B4.String()+"/24", "dev", linktest.Device)
	for _, ns := range []*linktest.Namespace{n.A, n.B} {
		ns.Run("ethtool", "-L", linktest.Device, "rx", "4", "tx", "4")
		ns.Run("ip", "link", "set", linktest.Device, "up")
	}
	a, b := openXDP().In(t, n.A, n.A4).(*xdp.Link), openXDP().In(t, n.B, n.B4).(*xdp.Link)
	defer func() {
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	}()
	require.Equal(t, queues, a.Queues())
	p := linktest.NewPath(a, b)
	linktest.Reaches(t, a, b, p)
	linktest.Drive(t, a, func() bool { return !a.Blocked() })
	r := rand.New(rand.NewPCG(1, 1))
	for round := range 10 {
		var batch []edge.TxPacket
		for flow := range 32 {
			q := *p
			q.Link, q.SrcPort = nil, 0xC000+uint16(64*round+flow)
			batch = append(batch, linktest.Packet(r, &q, 200))
		}
		before := b.Stats().RxPackets
		a.Send(batch)
		linktest.Drive(t, a, func() bool { return !a.Blocked() })
		for end := time.Now().Add(giveUp); b.Stats().RxPackets < before+32; linktest.Drain(t, b) {
			require.True(t, time.Now().Before(end))
		}
	}
	require.Equal(t, queues, a.QueuesUsed(), "flows are spread")
	_, _, err := b.Accounts()
	require.NoError(t, err)
}
