package verbs

import (
	"log/slog"

	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
)

// owner hands what the engine of a shard has to say to the objects that it concerns. The lock of
// the shard is held in Completed and Event.
type owner struct {
	d     *Device
	s     *shard.Shard
	first bool // s is the first of d
}

func (o *owner) Completed(t *transport.CQ) { t.UserData().(*CQ).completionEvent(o.s) }

func (o *owner) Event(ev transport.Event) {
	out := Event{Type: ev.Type}
	if ev.QP != nil {
		qp, ok := ev.QP.UserData().(*QP)
		if !ok {
			return // queue pair 1, of the communication manager
		}
		if ev.Type == EventCommEstablished && qp.established != nil {
			o.established(qp.established)
			return
		}
		if ev.Type == transport.EventQPUnanswered {
			if qp.unanswered != nil {
				o.established(qp.unanswered)
			}
			return
		}
		out.QP = qp
	}
	if ev.CQ != nil {
		out.CQ, _ = ev.CQ.UserData().(*CQ)
	}
	if ev.SRQ != nil {
		out.SRQ, _ = ev.SRQ.UserData().(*SRQ)
	}
	o.d.async.push(out)
}

// established calls f with the lock of the first shard held.
func (o *owner) established(f func()) {
	if o.first {
		f()
		return
	}
	o.s.Upcall(func() {
		_ = o.d.s.Command(func(int64) error { f(); return nil }) // fails only if the device is closed
	})
}

// PortChanged tells of the interfaces, which are those of all shards: one tells.
func (o *owner) PortChanged(before, now *link.PortState) {
	if before == nil || !o.first {
		return
	}
	d := o.d
	o.logPort(before, now)
	if o.s.MTUOf(before) != o.s.MTUOf(now) {
		d.async.push(Event{Type: EventPortMTU})
	}
	switch {
	case before.Up == now.Up:
	case now.Up:
		d.async.push(Event{Type: EventPortActive})
	default:
		d.linkDowned.Add(1)
		d.async.push(Event{Type: EventPortError})
	}
}

// Failed ends the device: what is left of it has one link less, and no telling which objects need
// that. As with a card that fails, an event tells, queue pairs go to ERR, and what they had to do
// is flushed, and can still be polled.
func (o *owner) Failed(err error) {
	o.d.failed.Do(func() {
		o.d.async.push(Event{Type: EventDeviceFatal})
		o.d.logState(slog.LevelError, "roce: the link is broken", slog.Any("error", err))
		shard.Fail(o.d.shards.end(), err)
	})
}

func (o *owner) Close() { o.d.shut(nil) }
