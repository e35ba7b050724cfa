package rdmacm_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// idStates are the ways of an ID into each of its states. Neither side has a queue pair.
var idStates = []struct {
	name string
	make func(t *testing.T, s, c *rocetest.Peer) *rdmacm.ID
}{
	{"idle", func(t *testing.T, _, c *rocetest.Peer) *rdmacm.ID {
		id, err := rdmacm.CreateID(c.Ch, rdmacm.PortSpaceTCP)
		require.NoError(t, err)
		return id
	}},
	{"bound", func(t *testing.T, _, c *rocetest.Peer) *rdmacm.ID {
		id, err := rdmacm.CreateID(c.Ch, rdmacm.PortSpaceTCP)
		require.NoError(t, err)
		require.NoError(t, id.BindAddr(netip.AddrPortFrom(c.D.Addrs()[0], 0)))
		return id
	}},
	{"address", func(t *testing.T, s, c *rocetest.Peer) *rdmacm.ID {
		id, err := rdmacm.CreateID(c.Ch, rdmacm.PortSpaceTCP)
		require.NoError(t, err)
		require.NoError(t, id.ResolveAddr(netip.AddrPort{}, netip.AddrPortFrom(s.D.Addrs()[0], 7471)))
		return id
	}},
	{"route", func(t *testing.T, s, c *rocetest.Peer) *rdmacm.ID {
		return c.ResolveID(t, rocetest.Context(t), rdmacm.PortSpaceTCP, netip.AddrPortFrom(s.D.Addrs()[0], 7471))
	}},
	{"listening", func(t *testing.T, s, _ *rocetest.Peer) *rdmacm.ID {
		return s.Listen(t, rdmacm.PortSpaceTCP, 7471)
	}},
	{"requested", func(t *testing.T, s, c *rocetest.Peer) *rdmacm.ID { _, id := asked(t, s, c); return id }},
	{"asking", func(t *testing.T, s, c *rocetest.Peer) *rdmacm.ID { id, _ := asked(t, s, c); return id }},
	{"accepting", func(t *testing.T, s, c *rocetest.Peer) *rdmacm.ID {
		_, id := asked(t, s, c)
		require.NoError(t, id.Accept(&rdmacm.ConnParam{QPN: 6}))
		return id
	}},
	{"responded", func(t *testing.T, s, c *rocetest.Peer) *rdmacm.ID { id, _ := answered(t, s, c); return id }},
	{"connected", func(t *testing.T, s, c *rocetest.Peer) *rdmacm.ID {
		id, _ := answered(t, s, c)
		require.NoError(t, id.Establish())
		return id
	}},
	{"over", func(t *testing.T, s, c *rocetest.Peer) *rdmacm.ID {
		id, _ := answered(t, s, c)
		require.NoError(t, id.Establish())
		require.NoError(t, id.Disconnect(nil))
		return id
	}},
}

// asked has a request of an ID with the application of the peer.
func asked(t *testing.T, s, c *rocetest.Peer) (active, passive *rdmacm.ID) {
	ctx := rocetest.Context(t)
	s.Listen(t, rdmacm.PortSpaceTCP, 7471)
	active = c.ResolveID(t, ctx, rdmacm.PortSpaceTCP, netip.AddrPortFrom(s.D.Addrs()[0], 7471))
	require.NoError(t, active.Connect(&rdmacm.ConnParam{QPN: 5}))
	return active, s.Next(t, ctx, rdmacm.EventConnectRequest).ID
}

// answered has the peer's reply with the application.
func answered(t *testing.T, s, c *rocetest.Peer) (active, passive *rdmacm.ID) {
	active, passive = asked(t, s, c)
	require.NoError(t, passive.Accept(&rdmacm.ConnParam{QPN: 6}))
	c.Next(t, rocetest.Context(t), rdmacm.EventConnectResponse)
	return active, passive
}

// idCalls are the calls that depend on the state.
var idCalls = []struct {
	name string
	call func(id *rdmacm.ID) error
}{
	{"BindAddr", func(id *rdmacm.ID) error { return id.BindAddr(netip.AddrPort{}) }},
	{"SetReuseAddr", func(id *rdmacm.ID) error { return core.Open(id).SetReuseAddr(true) }},
	{"ResolveAddr", func(id *rdmacm.ID) error {
		return id.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort("10.0.0.1:7471"))
	}},
	{"ResolveRoute", (*rdmacm.ID).ResolveRoute},
	{"Connect", func(id *rdmacm.ID) error { return id.Connect(&rdmacm.ConnParam{QPN: 5}) }},
	{"Listen", func(id *rdmacm.ID) error { return id.Listen(rdmacm.ListenLimits{Backlog: 1}) }},
	{"Accept", func(id *rdmacm.ID) error { return id.Accept(&rdmacm.ConnParam{QPN: 6}) }},
	{"Reject", func(id *rdmacm.ID) error { return id.RejectReason(mad.RejectConsumer, nil) }},
	{"Establish", (*rdmacm.ID).Establish},
	{"Disconnect", func(id *rdmacm.ID) error { return id.Disconnect(nil) }},
	{"QPAttr INIT", func(id *rdmacm.ID) error { _, _, err := id.QPAttr(verbs.StateInit, nil); return err }},
	{"QPAttr RTR", func(id *rdmacm.ID) error { _, _, err := id.QPAttr(verbs.StateRTR, nil); return err }},
}

// The full table of which call fits which state: a dot is ErrInvalidState.
const idCallTable = `
              idle bound address route listening requested asking accepting responded connected over
BindAddr      yes  .     .       .     .         .         .      .         .         .         .
SetReuseAddr  yes  .     .       .     .         .         .      .         .         .         .
ResolveAddr   yes  yes   .       .     .         .         .      .         .         .         .
ResolveRoute  .    .     yes     .     .         .         .      .         .         .         .
Connect       .    .     yes     yes   .         .         .      .         .         .         .
Listen        yes  yes   .       .     .         .         .      .         .         .         .
Accept        .    .     .       .     .         yes       .      .         .         .         .
Reject        .    .     .       .     .         yes       .      .         yes       .         .
Establish     .    .     .       .     .         .         .      .         yes       .         .
Disconnect    .    .     .       .     .         .         .      yes       .         yes       yes
QPAttr INIT   .    yes   yes     yes   yes       yes       yes    yes       yes       yes       yes
QPAttr RTR    .    .     .       .     .         yes       .      yes       yes       yes       .
`

func TestCallsByState(t *testing.T) {
	var header strings.Builder
	fmt.Fprintf(&header, "\n%-14s", "")
	lines := make([]string, len(idCalls))
	for i, s := range idStates {
		header.WriteString(s.name)
		var id *rdmacm.ID // one that a call was refused for is what it was
		for j, call := range idCalls {
			if id == nil {
				ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), 2)
				id = s.make(t, rocetest.PeerOn(t, ds[0]), rocetest.PeerOn(t, ds[1]))
			}
			cell := "."
			if err := call.call(id); !errors.Is(err, verbs.ErrInvalidState) {
				require.NoError(t, err, "%s when %s", call.name, s.name)
				id, cell = nil, "yes"
			}
			if i == 0 {
				lines[j] = fmt.Sprintf("%-14s", call.name)
			}
			lines[j] += fmt.Sprintf("%-*s ", len(s.name), cell)
		}
		if i+1 < len(idStates) {
			header.WriteByte(' ')
		}
	}
	table := header.String() + "\n"
	for _, l := range lines {
		table += strings.TrimRight(l, " ") + "\n"
	}
	require.Equal(t, idCallTable, table)
}
