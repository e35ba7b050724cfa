package conform

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/conformance/drill"
	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/peer"
)

// Options say what to run, against whom.
type Options struct {
	// Agents are one agent, or two, whose devices then are put against each other.
	Agents []peer.AgentServer
	// Cable, with two agents, are the network interfaces of this machine that the one's and the
	// other's device are plugged into: this program is the cable between them. Empty if their
	// packets don't come by here.
	Cable []string
	// Link is the link of this side: udp (also if empty), packet, xdp.
	Link string
	// Addrs are the local addresses to use; by default those from which the kernel reaches the
	// peer.
	Addrs []netip.Addr
	// PeerAddrs choose among the addresses of the agent's device; by default the first of each
	// family.
	PeerAddrs []netip.Addr
	// Profile is what is expected of the peer; empty guesses it from the name of its device.
	Profile peer.Profile
	// Only are groups, or group/text for the rows of a group whose names contain the text. Empty
	// means all.
	Only []string
	// Drills, if not empty, are played instead of those of package drill, and nothing else is run.
	Drills []*drill.Drill
	// Quick runs a subset.
	Quick bool
	// Seed is where the contents of transfers come from.
	Seed uint64
	// Lanes is how many rows are on their way at a time; 0 is DefaultLanes.
	Lanes int
	// PcapDir, if not empty, is where the packets of each failed row go.
	PcapDir string
	// Explain, if not nil, writes what a capture file says in words. It goes beside the capture.
	Explain func(w io.Writer, name string, capture io.Reader, local []netip.Addr) error
	// OnRow, if not nil, sees each row as it comes, one at a time.
	OnRow func(matrix.Row)
	// Logf, if not nil, is told what is going on.
	Logf func(format string, args ...any)

	keeper *keeper // nil if no packets come by here
	// at runs a function where the interfaces of the cable are; nil is here.
	at func(func() error) error
}

const (
	// DefaultLanes is how many rows are on their way at a time, unless told.
	DefaultLanes = 12
	// AnswerTimeout is how long an agent may take for an answer, unless told.
	AnswerTimeout = 30 * time.Second
)

// Groups are the names of the groups of rows, in the order in which they are run.
func Groups() []string { return append(matrix.Groups(), drillsGroup) }

// check returns an error if the options cannot be.
func (o *Options) check() error {
	switch n := len(o.Agents); {
	case n == 0:
		return fmt.Errorf("conform: an agent is needed")
	case n > 2:
		return fmt.Errorf("conform: %d agents, and two are the most", n)
	}
	switch n := len(o.Cable); {
	case n == 0:
	case len(o.Agents) != 2:
		return fmt.Errorf("conform: a cable is between the devices of two agents")
	case n != 2:
		return fmt.Errorf("conform: a cable has two ends, not %d", n)
	}
	if err := peer.CheckLink(o.link()); err != nil {
		return err
	}
	for _, only := range o.Only {
		group, _, _ := strings.Cut(only, "/")
		if !slices.Contains(Groups(), group) {
			return fmt.Errorf("conform: there is no group %q; there are %s", group, strings.Join(Groups(), ", "))
		}
	}
	return nil
}

func (o *Options) link() string {
	if o.Link == "" {
		return peer.DefaultLink
	}
	return o.Link
}

func (o *Options) logf(format string, args ...any) {
	if o.Logf != nil {
		o.Logf(format, args...)
	}
}

// groups are those that were asked for.
func (o *Options) groups() []string {
	all := Groups()
	if len(o.Drills) > 0 {
		all = []string{drillsGroup}
	}
	if len(o.Only) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(g string) bool {
		return !slices.ContainsFunc(o.Only,
			func(only string) bool { return only == g || strings.HasPrefix(only, g+"/") })
	})
}

// wants reports whether a row was asked for.
func (o *Options) wants(row matrix.Row) bool {
	if len(o.Only) == 0 {
		return true
	}
	return slices.ContainsFunc(o.Only, func(only string) bool {
		group, text, some := strings.Cut(only, "/")
		return group == row.Group && (!some || strings.Contains(row.Label(), text))
	})
}

// List returns the rows that a run has, as far as that can be told without the peer.
func List(o Options) (rows []matrix.Row, err error) {
	for _, only := range o.Only {
		if group, _, _ := strings.Cut(only, "/"); !slices.Contains(Groups(), group) {
			return nil, fmt.Errorf("conform: there is no group %q; there are %s", group, strings.Join(Groups(), ", "))
		}
	}
	e := &matrix.Env{Kernel: "peer", Link: o.link(), Full: !o.Quick, Choose: o.wants}
	for _, g := range o.groups() {
		if g == drillsGroup {
			rows = append(rows, o.drillRows(e.Kernel, e.Link)...)
			continue
		}
		list, err := e.List(g)
		if err != nil {
			return nil, err
		}
		rows = append(rows, list...)
	}
	return rows, nil
}
