package shard

import (
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/link"
)

// Slotted returns what the link does so that other devices can have its addresses, too.
func (s *Shard) Slotted() link.Slotted { return s.slotted }

// Slot is the part of the queue pair numbers and communication IDs that come here.
func (s *Shard) Slot() ib.Slot { return s.link.Capabilities().Slot }

// slottedOf finds it in a link, or in the link below a middleware that does not unwrap.
func slottedOf(l, base link.Link) link.Slotted {
	if f, ok := link.As[link.Slotted](l); ok {
		return f
	}
	if f, ok := link.As[link.Slotted](base); ok {
		return f
	}
	return alone{}
}

// alone is for a link whose addresses nobody else has.
type alone struct{}

func (alone) Another() (link.Link, error)              { return nil, link.ErrUnsupported }
func (alone) ServeRequests() error                     { return nil }
func (alone) Announce(mad.ServiceID, netip.Addr) error { return nil }
func (alone) Withdraw(mad.ServiceID, netip.Addr)       {}
