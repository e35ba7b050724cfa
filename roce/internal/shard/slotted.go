package shard

import (
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/link"
)

// Slotted returns the link's means to share its addresses with other devices.
func (s *Shard) Slotted() link.Slotted { return s.slotted }

// Slot returns the part of the queue pair numbers and communication IDs that arrives at this shard.
func (s *Shard) Slot() ib.Slot { return s.link.Capabilities().Slot }

// slottedOf finds link.Slotted in a link, or in the link below a middleware that does not unwrap.
func slottedOf(l, base link.Link) link.Slotted {
	if f, ok := link.As[link.Slotted](l); ok {
		return f
	}
	if f, ok := link.As[link.Slotted](base); ok {
		return f
	}
	return alone{}
}

// alone stands in for link.Slotted on a link that shares its addresses with no other device.
type alone struct{}

func (alone) Another() (link.Link, error)              { return nil, link.ErrUnsupported }
func (alone) ServeRequests() error                     { return nil }
func (alone) Announce(mad.ServiceID, netip.Addr) error { return nil }
func (alone) Withdraw(mad.ServiceID, netip.Addr)       {}
