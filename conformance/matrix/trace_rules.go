package matrix

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/goroce/goroce/conformance/lab/wire"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/transport"
)

// views starts to record what the two sides of the connection see.
func (c *conn) views() *wire.Views {
	w := c.env.Wire
	return w.Views(w.Port(c.req.p.PortName()), w.Port(c.rsp.p.PortName()), c.between())
}

// checkConduct holds what each side of an RC connection has sent against the rules of
// analyse.Conduct (after Lumina, SIGCOMM 2023), which any requester and responder must keep to
// whatever the wire does: each is judged by what it saw itself.
func (c *conn) checkConduct(v *wire.Views) error {
	v.Stop()
	if n := v.Lost(); n > 0 {
		return fmt.Errorf("trace: %d packets lost", n)
	}
	known := analyse.Known{MTU: c.mtu, FirstPSN: [2]ib.PSN{firstPSN, firstPSN}}
	for i, x := range []struct {
		s   *side
		qpn uint32
	}{{c.req, c.rq.QPN()}, {c.rsp, c.sq.QPN()}} {
		known.Ends[i] = analyse.Endpoint{Addr: x.s.p.Addr(c.family), QPN: ib.QPN(x.qpn)}
	}
	for view, x := range []*side{c.req, c.rsp} {
		opt := analyse.Options{Conduct: &analyse.Conduct{Connections: []analyse.Known{known}}}
		if view == 1 && isGoroce(x.p) {
			// The responder's clock is read once for many packets: half the time is enough.
			opt.Conduct.NAKPauseNs = transport.DefaultSeqNAKRearmNs / 2
		}
		var file bytes.Buffer
		if err := v.WritePcapng(&file, view); err != nil {
			return err
		}
		r, _, err := analyse.Read(&file, opt)
		if err != nil {
			return err
		}
		if err := breaches(x.p.Name(), r); err != nil {
			return err
		}
	}
	return nil
}

// breaches makes an error of the rules that a side broke.
func breaches(who string, r *analyse.Report) error {
	var errs []error
	for _, b := range r.Breaches {
		errs = append(errs, fmt.Errorf("%s broke the rule %q: %s", who, b.Rule, b.Text))
	}
	return errors.Join(errs...)
}
