package verbs

import (
	"log/slog"

	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
)

// owner passes the engine events of a shard to the objects concerned. Completed and Event are
// called with the lock of the shard held.
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
			return // queue pair 1, the communication manager's
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

// PortChanged reports a change of the interfaces. All shards share them, so only the first reports
// it.
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

// Failed ends the device: it has lost a link, and any object may depend on it. As when a card
// fails, an event reports it, queue pairs go to ERR, and their requests are flushed and can still
// be polled.
func (o *owner) Failed(err error) {
	o.d.failed.Do(func() {
		o.d.async.push(Event{Type: EventDeviceFatal})
		o.d.logState(slog.LevelError, "roce: the link is broken", slog.Any("error", err))
		shard.Fail(o.d.shards.end(err), err)
	})
}

func (o *owner) Close() { o.d.shut(nil) }
