package matrix

import (
	"fmt"

	"github.com/goroce/goroce/conformance/peer"
)

// overflows is how many packets have come to this machine that its links had no room for, because
// nothing here had taken the ones before: that is said of a machine that does other things, and not
// of the sender.
func (p *pair) overflows() (n uint64) {
	for _, s := range []*side{p.req, p.rsp} {
		if o, ok := s.p.(interface{ Overflows() uint64 }); ok {
			n += o.Overflows()
		}
	}
	return n
}

// excuseOverflow returns err as a starvedError if packets of UC or UD, which nobody sends again,
// have been lost here since overflows was before.
func (p *pair) excuseOverflow(err error, t peer.Type, before uint64) error {
	if lost := p.overflows() - before; lost > 0 && t != peer.RC {
		return starvedError{err, fmt.Sprintf("this machine was too slow to take %d packets that had come", lost)}
	}
	return err
}
