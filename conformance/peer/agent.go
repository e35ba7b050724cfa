package peer

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Agent is an implementation behind a verbs agent: the kernel's rxe, a network card, another
// process with this module.
type Agent struct {
	at    AgentPlace
	about About
	caps  Caps
	gids  map[Family]int
	addrs map[Family]netip.Addr
}

// AgentPlace says where the agent is, and what is wanted of it.
type AgentPlace struct {
	Agent AgentServer
	// Name is what the peer is called; empty is what the agent says of itself.
	Name string
	// Link names the way to the wire; empty is "verbs".
	Link     string
	PortName string
	// Profile is what is expected; empty guesses it from the device.
	Profile Profile
	// Addr4 and Addr6 are the addresses to use. An invalid one stands for the first usable
	// one of its family in the device's GID table, if there is one.
	Addr4, Addr6 netip.Addr
}

// NewAgent asks an agent for its device, its addresses and what it can do.
func NewAgent(ctx context.Context, at AgentPlace) (*Agent, error) {
	c, dev, err := DialAgent(ctx, at.Agent)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	name := cmp.Or(dev.Str("dev"), at.Agent.Dev)
	at.Agent.Dev = name
	at.Link = cmp.Or(at.Link, "verbs")
	at.Profile = cmp.Or(at.Profile, profileOf(name))
	if at.Name == "" {
		if at.Name = name; c.Hello().Kernel != "" {
			at.Name += " on " + c.Hello().Kernel
		}
	}
	about := About{Program: c.Hello().Agent, Kernel: c.Hello().Kernel, Device: name, Firmware: dev.Str("fw")}
	p := &Agent{at: at, about: about, gids: map[Family]int{}, addrs: map[Family]netip.Addr{}}
	const (
		flushGlobal = 1 << 38 // IB_UVERBS_DEVICE_FLUSH_GLOBAL
		atomicWrite = 1 << 40 // IB_UVERBS_DEVICE_ATOMIC_WRITE
	)
	ex := dev.Num("cap_flags_ex")
	p.caps = Caps{
		MaxMTU:      128 << dev.Num("active_mtu"),
		Flush:       dev.Num("lib_flush") == 1 && ex&flushGlobal != 0,
		AtomicWrite: dev.Num("lib_atomic_write") == 1 && ex&atomicWrite != 0,
	}
	r, err := c.Call("gids")
	if err != nil {
		return nil, err
	}
	return p, p.readGIDs(r.All("g"))
}

// readGIDs takes the addresses from the GID table: entries are INDEX,TYPE,GID.
func (p *Agent) readGIDs(table []string) error {
	want := map[Family]netip.Addr{V4: p.at.Addr4, V6: p.at.Addr6}
	for _, s := range table {
		f := strings.Split(s, ",")
		if len(f) != 3 || f[1] != "v2" {
			continue
		}
		a, err := netip.ParseAddr(f[2])
		if err != nil || a.IsUnspecified() {
			continue
		}
		i, err := strconv.Atoi(f[0])
		if err != nil {
			continue
		}
		a = a.Unmap()
		fam := V6
		if a.Is4() {
			fam = V4
		}
		// Without a wish the first one that others can reach: a link-local address needs a zone.
		_, have := p.gids[fam]
		if w := want[fam]; w.IsValid() && w == a || !w.IsValid() && !have && !a.IsLinkLocalUnicast() {
			p.gids[fam], p.addrs[fam] = i, a
		}
	}
	for fam, w := range want {
		if _, have := p.gids[fam]; w.IsValid() && !have {
			return fmt.Errorf("peer: %s: no RoCE v2 GID is %v in the table %v", p.at.Name, w, table)
		}
	}
	if len(p.gids) == 0 {
		return fmt.Errorf("peer: %s: no RoCE v2 GID of an IP address in the table %v", p.at.Name, table)
	}
	return nil
}

// Kernel is the release of the agent's kernel, as far as the agent has said.
func (p *Agent) Kernel() string { return p.about.Kernel }

// About is what an agent says of itself and its device; each may be empty.
type About struct{ Program, Kernel, Device, Firmware string }

// About is what the agent has said.
func (p *Agent) About() About { return p.about }

// Restrict changes what the peer is known to be able to do.
func (p *Agent) Restrict(f func(*Caps)) { f(&p.caps) }

// Name says what it is.
func (p *Agent) Name() string { return p.at.Name }

// Link is the way to its wire.
func (p *Agent) Link() string { return p.at.Link }

// Caps tells which of the newer operations device and library both have.
func (p *Agent) Caps() Caps { return p.caps }

// Profile is what is expected of it.
func (p *Agent) Profile() Profile { return p.at.Profile }

// PortName is the name of its port on the wire.
func (p *Agent) PortName() string { return p.at.PortName }

// GIDIndex is the index of the GID of a family.
func (p *Agent) GIDIndex(f Family) int { return p.gids[f] }

// Addr is its address.
func (p *Agent) Addr(f Family) netip.Addr { return p.addrs[f] }

// Families are those that it has an address of.
func (p *Agent) Families() []Family {
	return slices.DeleteFunc([]Family{V4, V6}, func(f Family) bool { return !p.addrs[f].IsValid() })
}

// Open starts a session with the agent.
func (p *Agent) Open(ctx context.Context) (Session, error) {
	c, _, err := DialAgent(ctx, p.at.Agent)
	if err != nil {
		return nil, err
	}
	s := &agentSession{p: p, c: c, ahs: map[string]uint64{}}
	r, err := c.Call("pd")
	if err != nil {
		c.Close()
		return nil, err
	}
	s.pd = r.Num("id")
	return s, nil
}

type agentSession struct {
	p   *Agent
	c   *AgentClient
	pd  uint64
	ahs map[string]uint64
}

func (s *agentSession) Close() error { return s.c.Close() }

// Broken is why nothing more can be asked of the agent; nil if it can.
func (s *agentSession) Broken() error { return s.c.Broken() }

func (s *agentSession) Counters() (map[string]uint64, error) {
	r, err := s.c.Call("counters")
	return r.Map(), err
}
