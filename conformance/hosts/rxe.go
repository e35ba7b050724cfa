package hosts

import (
	"context"
	"fmt"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/peer"
)

// RXE is the kernel's rdma_rxe in a lab guest.
type RXE struct {
	*peer.Agent
	g *lab.Guest
}

// NewRXE starts the verbs agent in a guest. The agent ends with ctx or the guest.
func NewRXE(ctx context.Context, g *lab.Guest) (*RXE, error) {
	p := &RXE{g: g}
	_, err := g.StartAgent(ctx)
	if err != nil {
		return nil, err
	}
	var major, minor int
	if _, err := fmt.Sscanf(g.Image.Kernel, "%d.%d", &major, &minor); err != nil {
		return nil, fmt.Errorf("hosts: kernel release %q: %w", g.Image.Kernel, err)
	}
	p.Agent, err = peer.NewAgent(ctx, peer.AgentPlace{
		Agent: peer.AgentServer{Addr: g.AgentAddr(), Dev: g.Dev}, Name: "rxe " + g.Image.KernelName(),
		Link: "rxe", PortName: g.Name, Profile: peer.ProfileRXE, Addr4: g.Addr4, Addr6: g.Addr6,
	})
	if err != nil {
		return nil, fmt.Errorf("hosts: %s: %w", g.Name, err)
	}
	if major < 6 || major == 6 && minor < 12 {
		p.Restrict(func(c *peer.Caps) { c.Flush, c.AtomicWrite = false, false })
	}
	return p, nil
}

// Guest is where it runs.
func (p *RXE) Guest() *lab.Guest { return p.g }
