package conform

import (
	"context"
	"net/netip"

	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/conformance/switchlink"
)

// cableLink is what rows name as the link between two devices that this program is the cable of.
const cableLink = "cable"

// twoAgents puts the device of the first agent, as the subject, against that of the second. With a
// cable their packets pass here, and are lost, changed and looked at as those of this side's own
// device. Without one they don't come by, and rows that need that are left out.
func (o *Options) twoAgents(ctx context.Context, env *matrix.Env) (end func(), err error) {
	var peers [2]*peer.Agent
	for i, a := range o.Agents {
		at := peer.AgentPlace{Agent: a, PortName: a.Addr, Profile: o.Profile}
		if len(o.Cable) > 0 {
			at.PortName, at.Link = []string{switchlink.Near, switchlink.Far}[i], cableLink
		}
		if peers[i], err = newAgent(ctx, at); err != nil {
			return nil, err
		}
	}
	env.Subject, env.Ref, env.RefPort = peers[0], peers[1], peers[1].PortName()
	env.Untried = untried(peers[0]) || untried(peers[1])
	env.Kernel, env.Link = peers[0].Name()+" with "+peers[1].Name(), peers[0].Link()
	if len(o.Cable) == 0 {
		env.Blind = true
		o.logf("%s against %s, without this side between them", peers[0].Name(), peers[1].Name())
		return func() {}, nil
	}
	var cable *switchlink.Cable
	open := func() (err error) {
		cable, err = switchlink.NewCable(env.Wire, [2]string(o.Cable), [2]string{switchlink.Near, switchlink.Far})
		return err
	}
	if o.at == nil {
		o.at = func(f func() error) error { return f() }
	}
	if err := o.at(open); err != nil {
		return nil, err
	}
	cable.Start()
	var local []netip.Addr
	for _, f := range peers[0].Families() {
		local = append(local, peers[0].Addr(f))
	}
	o.keeper = &keeper{dir: o.PcapDir, sw: env.Wire, explain: o.Explain, local: local, near: o.Cable[0],
		far: o.Cable[1]}
	env.Explain = o.keeper.keep
	o.logf("%s behind %s against %s behind %s, with this side as the cable", peers[0].Name(), o.Cable[0],
		peers[1].Name(), o.Cable[1])
	return func() { o.endCable(cable) }, nil
}

// endCable closes the cable, and tells of frames that did not pass it: rows may have failed for
// that.
func (o *Options) endCable(c *switchlink.Cable) {
	if err := c.Close(); err != nil {
		o.logf("the cable: %v", err)
	}
	for _, e := range c.Ends {
		s := e.Stats()
		if s.Missed > 0 {
			o.logf("%s: %d frames were dropped before they were read", e.Name, s.Missed)
		}
		if n := s.Lost + s.OtherLost; n > 0 {
			o.logf("%s: %d frames were not taken by the interface: is its MTU smaller, or is it down?", e.Name, n)
		}
	}
}
