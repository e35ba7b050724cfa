package analyse

import (
	"fmt"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/pcap"
)

// subjects are the messages that an MRA may be about.
var subjects = map[mad.Subject]mad.Attribute{mad.SubjectREQ: mad.AttrREQ, mad.SubjectREP: mad.AttrREP}

// received handles an MRA: the peer has the message, and needs time to answer it. If the message
// had come again before that, it was not lost then. One MRA proves less than two: Linux 6.1 sends
// one for the first REQ that it has, later kernels and goroce for a repeated one.
func (x *exchange) received(p *pcap.Packet, d *mad.Data) {
	var m mad.MRA
	m.Decode(d)
	attr, ok := subjects[m.Acknowledged]
	if !ok {
		return
	}
	x.mraAt, x.mraWait = p.AtNs, m.ServiceTimeout.Ns()
	f := x.request(attr).find
	switch {
	case f == nil:
		return
	case f.Kind == CMLost && !f.Certain:
		f.is(CMSlow, CMLost)
		from, by, first := p.Flow.Dst, p.Flow.Src, p.Frame
		f.what = func(f *Finding) string {
			return fmt.Sprintf("%v had no answer to its %v in packet %d, and sent it again in packet %d. %v has it: it says in packet %d (MRA) that the answer takes time.",
				from, attr, f.Frames[0], f.Frames[1], by, first)
		}
	case f.Kind == CMSlow:
		f.is(CMSlow)
	}
	f.add(p.Frame)
}

// askedToWait handles a message that comes again after an MRA about it: after the time that the MRA
// asks for, the answer still takes its time; before, the MRA has not arrived.
func (x *exchange) askedToWait(a *Analyser, p *pcap.Packet, attr mad.Attribute, m *cmMessage, was int,
	since int64) bool {
	mra := x.request(mad.AttrMRA)
	if attr != mad.AttrREQ && attr != mad.AttrREP || mra.times == 0 || x.mraAt < p.AtNs-since {
		return false
	}
	src, frame, waited, wait := p.Flow.Src, mra.last, time.Duration(p.AtNs-x.mraAt), time.Duration(x.mraWait)
	if waited < wait {
		f := a.keep(a.newFinding(CMLost, ib.QPNGSI, p.PSN, frame, p.Frame))
		f.is(CMLost, CMSlow)
		f.conn = x.c
		f.what = func(*Finding) string {
			return fmt.Sprintf("The MRA in packet %d asks %v to wait for %v, and it sent its %v again after %v (packet %d): the MRA was lost, or it does not wait.",
				frame, src, wait, attr, waited, f.Frames[1])
		}
		return true
	}
	if m.find == nil {
		m.find = a.keep(a.newFinding(CMSlow, ib.QPNGSI, p.PSN, was, frame, p.Frame))
		m.find.conn = x.c
		m.find.what = func(f *Finding) string {
			return fmt.Sprintf("The %v of %v in packet %d has arrived, as the MRA in packet %d says, and had no answer when it was sent again in packet %d.",
				attr, src, was, frame, f.Frames[2])
		}
		return true
	}
	m.find.add(p.Frame)
	return true
}
