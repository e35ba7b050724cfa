package roce

import (
	"context"

	"github.com/goroce/goroce/mem"
)

// turn lets the calling goroutine take its turn if the device is on a simulation
// where goroutines do. The caller holds no mutex: others that want it would not be
// seen to wait.
func (d *Device) turn() { d.Turn(nil) }

// Turn is for packages that are built on a device, at the beginning of calls that
// may wait: if the device is on a simulation in which goroutines take turns (see
// link.Scheduler) it returns when it is the caller's, or when quit is closed, which may be
// nil. The caller holds no mutex. Elsewhere Turn does nothing.
func (d *Device) Turn(quit <-chan struct{}) {
	if d != nil && d.sched != nil {
		d.sched.Turn(quit)
	}
}

// quitter is a context that can end in a way for which nobody has to wait: that of a call
// that another one, which waits for its end, has broken off. The other one may hold
// a mutex meanwhile.
type quitter interface {
	Quit() <-chan struct{}
}

func quitOf(ctx context.Context) <-chan struct{} {
	if q, ok := ctx.(quitter); ok {
		return q.Quit()
	}
	return nil
}

// pauseTurn is pause for such a device. What several goroutines do at the same time happens
// in an order of its own, so that what there is to return is looked for after the
// turn was taken, when everybody else waits.
func (d *Device) pauseTurn(ctx context.Context, notify <-chan struct{}) error {
	told := false
	select {
	case <-notify:
		return nil
	default:
	}
	select {
	case <-notify:
		told = true
	case <-ctx.Done():
	case <-d.closed:
	}
	d.sched.Turn(quitOf(ctx))
	if !told {
		select {
		case <-notify:
			told = true
		default:
		}
	}
	switch {
	case told:
		return nil
	case d.isClosed():
		return d.closedErr()
	}
	return ctx.Err()
}

// simulatedIOVA is where the addresses of memory begin in such a simulation.
const simulatedIOVA = 0x10_0000_0000

// place gives memory an address of its own where goroutines take turns: its real one is
// another one in each run, and goes over the network. mu is held.
func (d *Device) place(a *mem.RegionAttr) {
	if d.sched == nil || a.IOVASet || a.Access&ZeroBased != 0 {
		return
	}
	const page = 4096
	a.IOVA, a.IOVASet = simulatedIOVA+d.placed, true
	d.placed += (uint64(len(a.Bytes))/page + 2) * page // one is between them
}
