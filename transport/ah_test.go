package transport

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// requireAttr checks that err names the attribute at fault.
func requireAttr(t *testing.T, err error, attr string) {
	t.Helper()
	var ae *ArgError
	require.ErrorAs(t, err, &ae)
	require.Equal(t, attr, ae.Arg, err.Error())
	require.True(t, errors.Is(err, ErrInvalidAttr))
}

func gid(s string) ib.GID { return ib.GIDFromAddr(netip.MustParseAddr(s)) }

func TestAH(t *testing.T) {
	b := newBench(t)
	refs := b.pd.Refs()
	av := AddressVector{DGID: gid("192.0.2.9"), FlowLabel: 0x286CF, TrafficClass: 0x68}
	ah, err := b.e.CreateAH(b.pd, av)
	require.NoError(t, err)
	require.Equal(t, av, ah.Query())
	require.Equal(t, Path{
		Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.9"),
		SrcPort: 50885, FlowLabel: 0x286CF, TrafficClass: 0x68, HopLimit: 64,
	}, ah.path)
	require.Equal(t, refs+1, b.pd.Refs())
	require.NoError(t, ah.Destroy())
	require.ErrorIs(t, ah.Destroy(), ErrDestroyed)
	require.Equal(t, refs, b.pd.Refs())

	_, err = b.e.CreateAH(b.pd, AddressVector{DGID: gid("239.1.2.3")})
	require.NoError(t, err, "multicast")
	ah, err = b.e.CreateAH(b.pd, AddressVector{DGID: gid("2001:db8::9"), SGIDIndex: 1, HopLimit: 3})
	require.NoError(t, err)
	require.Equal(t, uint8(3), ah.path.HopLimit)
	require.GreaterOrEqual(t, ah.path.SrcPort, uint16(0xC000))
}

func TestAHBadArguments(t *testing.T) {
	b := newBench(t)
	good := AddressVector{DGID: gid("192.0.2.9")}
	for _, tc := range []struct {
		change func(*AddressVector)
		attr   string
	}{
		{func(av *AddressVector) { av.SGIDIndex = 2 }, "ah_attr.sgid_index"},
		{func(av *AddressVector) { av.SGIDIndex = -1 }, "ah_attr.sgid_index"},
		{func(av *AddressVector) { av.DGID = ib.GID{} }, "ah_attr.dgid"},
		{func(av *AddressVector) { av.DGID = gid("0.0.0.0") }, "ah_attr.dgid"},
		{func(av *AddressVector) { av.DGID = gid("2001:db8::9") }, "ah_attr.dgid"},
		{func(av *AddressVector) { av.SGIDIndex = 1 }, "ah_attr.dgid"},
		{func(av *AddressVector) { av.FlowLabel = 1 << 20 }, "ah_attr.flow_label"},
	} {
		av := good
		tc.change(&av)
		_, err := b.e.CreateAH(b.pd, av)
		requireAttr(t, err, tc.attr)
	}
	_, err := b.e.CreateAH(nil, good)
	requireAttr(t, err, "pd")
	other, err := mem.NewTable(newTestRand(9), mem.Limits{}).AllocPD()
	require.NoError(t, err)
	_, err = b.e.CreateAH(other, good)
	requireAttr(t, err, "pd")
	pd, err := b.e.cfg.Mem.AllocPD()
	require.NoError(t, err)
	require.NoError(t, pd.Dealloc())
	_, err = b.e.CreateAH(pd, good)
	requireAttr(t, err, "pd")
}
