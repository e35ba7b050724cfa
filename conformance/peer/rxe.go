package peer

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/verbs"
)

// RXE is the kernel's rdma_rxe in a lab guest.
type RXE struct {
	g     *lab.Guest
	caps  Caps
	gids  map[Family]int
	agent *lab.Proc
}

// NewRXE starts the verbs agent in a guest. The agent ends with ctx or the guest.
func NewRXE(ctx context.Context, g *lab.Guest) (*RXE, error) {
	p := &RXE{g: g, gids: map[Family]int{}}
	var err error
	if p.agent, err = g.StartAgent(ctx); err != nil {
		return nil, err
	}
	c, dev, err := verbs.Dial(ctx, g.AgentAddr(), g.Dev)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var major, minor int
	if _, err := fmt.Sscanf(g.Image.Kernel, "%d.%d", &major, &minor); err != nil {
		return nil, fmt.Errorf("peer: kernel release %q: %w", g.Image.Kernel, err)
	}
	newer := major > 6 || major == 6 && minor >= 12
	p.caps = Caps{
		MaxMsg:      dev.Num("max_msg_sz"),
		Flush:       newer && dev.Num("lib_flush") == 1,
		AtomicWrite: newer && dev.Num("lib_atomic_write") == 1,
	}
	r, err := c.Call("gids")
	if err != nil {
		return nil, err
	}
	for _, s := range r.All("g") {
		f := strings.Split(s, ",")
		a, err := netip.ParseAddr(f[len(f)-1])
		if err != nil || len(f) != 3 || f[1] != "v2" {
			continue
		}
		i, err := strconv.Atoi(f[0])
		if err != nil {
			continue
		}
		switch a.Unmap() {
		case g.Addr4:
			p.gids[V4] = i
		case g.Addr6:
			p.gids[V6] = i
		}
	}
	if len(p.gids) != 2 {
		return nil, fmt.Errorf("peer: %s: GID table %v has not both addresses", g.Name, r.All("g"))
	}
	return p, nil
}

// Name is "rxe" and the kernel's version.
func (p *RXE) Name() string { return "rxe " + p.g.Image.KernelMajorMinor() }

// Link is "rxe".
func (p *RXE) Link() string { return "rxe" }

// Caps tells which of the newer operations kernel and library both have.
func (p *RXE) Caps() Caps { return p.caps }

// PortName is the guest's name.
func (p *RXE) PortName() string { return p.g.Name }

// Guest is where it runs.
func (p *RXE) Guest() *lab.Guest { return p.g }

// GIDIndex is the index of the GID of a family.
func (p *RXE) GIDIndex(f Family) int { return p.gids[f] }

// Addr is the guest's address.
func (p *RXE) Addr(f Family) netip.Addr {
	if f == V6 {
		return p.g.Addr6
	}
	return p.g.Addr4
}

// Open starts a session with the agent.
func (p *RXE) Open(ctx context.Context) (Session, error) {
	c, _, err := verbs.Dial(ctx, p.g.AgentAddr(), p.g.Dev)
	if err != nil {
		return nil, err
	}
	s := &rxeSession{p: p, c: c, ahs: map[string]uint64{}}
	r, err := c.Call("pd")
	if err != nil {
		c.Close()
		return nil, err
	}
	s.pd = r.Num("id")
	return s, nil
}

type rxeSession struct {
	p   *RXE
	c   *verbs.Client
	pd  uint64
	ahs map[string]uint64
}

func (s *rxeSession) Close() error { return s.c.Close() }

func (s *rxeSession) Counters() (map[string]uint64, error) {
	r, err := s.c.Call("counters")
	return r.Map(), err
}
