package packet

import (
	"math/rand/v2"
	"os"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/frame"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/roce/link/internal/transmit"
	"github.com/goroce/goroce/transport/edge"
)

// sender is the sending side of the link.
type sender struct {
	transmit.Sender
	l      *Link
	fd     int
	sndbuf int
	paths  map[frame.Flow]*path
	light  uint16 // port of light paths; links of one address differ in it, which spreads these

	unresolved transmit.UnresolvedQueue[*path]
}

func (t *sender) init(l *Link) error {
	t.l = l
	t.unresolved.Init(&t.Stats, t.sendResolved)
	if err := setVnet(t.fd); err != nil {
		return &link.OpenError{Hint: "this kernel is too old: use the udp link", Err: err}
	}
	t.sndbuf = sockio.GrowBuffer(t.fd, l.bufferBytes(), unix.SO_SNDBUF, unix.SO_SNDBUFFORCE)
	t.paths = make(map[frame.Flow]*path)
	t.light = firstPort | uint16(rand.IntN(sourcePorts))
	t.Init(transmit.Sends{Route: t.routeOf, Admit: t.admit, Lost: t.lost})
	t.GSO.Store(!l.opts.DisableGSO)
	return nil
}

// Blocked reports whether packets wait for the socket, or can go now that a neighbour is known.
func (l *Link) Blocked() bool { return l.tx.Blocked() || l.tx.unresolved.Due() }

// Send sends waiting packets first, then the batch; see [link.Link].
func (l *Link) Send(batch []edge.TxPacket) {
	t := &l.tx
	if l.local.Life.Err() != nil {
		t.Stats.Dropped.Add(uint64(len(batch))) // the descriptor may belong to something else by now
		return
	}
	t.Retry()
	if t.unresolved.Due() {
		t.unresolved.Retry()
	}
	t.Send(batch)
}

// admit resolves the neighbour.
func (t *sender) admit(r *transmit.Route, p *edge.TxPacket, size int) bool {
	return t.unresolved.Admit(r.Own.(*path), p, size)
}

// lost counts packets of paths that the kernel did not take. The transport will see a loss. A
// socket that no longer exists ends the link.
func (t *sender) lost(of []*edge.Path, errno unix.Errno) {
	if sockio.Dead(errno) {
		t.l.local.Fail(os.NewSyscallError("sendmmsg", errno))
	}
	t.Stats.Refused(of, errno)
}

// sendResolved sends a packet that waited for its neighbour.
func (t *sender) sendResolved(p *path, of *edge.Path, data []byte) { t.SendPacket(&p.route, of, data) }
