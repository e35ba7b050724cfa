package verbs

import (
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
)

// owner hands what the engine has to say to the objects that it concerns. The lock is held
// in all but the last two.
type owner struct{ d *Device }

func (o owner) Completed(t *transport.CQ) { t.UserData().(*CQ).completionEvent() }

func (o owner) Event(ev transport.Event) {
	out := Event{Type: ev.Type}
	if ev.QP != nil {
		qp, ok := ev.QP.UserData().(*QP)
		if !ok {
			return // queue pair 1, of the communication manager
		}
		if ev.Type == EventCommEstablished && qp.established != nil {
			qp.established()
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

func (o owner) PortChanged(before, now *link.PortState) {
	if before == nil {
		return
	}
	d := o.d
	if d.s.MTUOf(before) != d.s.MTUOf(now) {
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

func (o owner) Failed(error) { o.d.async.push(Event{Type: EventPortError}) }
