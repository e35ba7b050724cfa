package matrix

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/transport"
)

// checkConduct holds what each side of an RC connection has sent against the rules of
// analyse.Conduct (after Lumina, SIGCOMM 2023), which any requester and responder must keep to
// whatever the wire does: each is judged by what it saw itself.
func (c *conn) checkConduct(v *ether.Views) error {
	for i, x := range []*side{c.req, c.rsp} {
		opt := analyse.Conduct{}
		if i == atResponder && isGoroce(x.p) {
			// The responder's clock is read once for many packets: half the time is enough.
			opt.NAKPauseNs = transport.DefaultSeqNAKRearmNs / 2
		}
		r, err := c.analysed(v, i, opt)
		if err != nil {
			return err
		}
		if isRXE(x.p) {
			// Rows of their own look at this: see rxeForgetsVA.
			r.Breaches = slices.DeleteFunc(r.Breaches,
				func(b analyse.Breach) bool { return b.Rule == analyse.RuleAgain })
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
