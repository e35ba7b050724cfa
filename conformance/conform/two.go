package conform

import (
	"context"

	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/peer"
)

// twoAgents puts the device of the first agent, as the subject, against that of the second. Their packets
// don't come by here: rows that lose, change or look at packets are left out.
func (o *Options) twoAgents(ctx context.Context, env *matrix.Env) error {
	var peers [2]*peer.Agent
	for i, a := range o.Agents {
		var err error
		if peers[i], err = newAgent(ctx, peer.AgentPlace{Agent: a, PortName: a.Addr, Profile: o.Profile}); err != nil {
			return err
		}
	}
	env.Subject, env.Ref, env.RefPort = peers[0], peers[1], peers[1].PortName()
	env.Kernel, env.Link = peers[0].Name()+" with "+peers[1].Name(), peers[0].Link()
	env.Blind = true
	o.logf("%s against %s, without this side between them", peers[0].Name(), peers[1].Name())
	return nil
}
