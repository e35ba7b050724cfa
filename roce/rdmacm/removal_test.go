package rdmacm_test

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// The link of a device breaks: each ID has DEVICE_REMOVAL, once, and then a call that waits learns
// why.
func TestDeviceRemoval(t *testing.T) {
	ctx := rocetest.Context(t)
	d, broken := rocetest.OpenBreakable(t, verbs.Config{})
	ch, err := rdmacm.CreateEventChannel(d)
	require.NoError(t, err)
	ids := map[*rdmacm.ID]bool{}
	for range 3 {
		id, err := rdmacm.CreateID(ch, rdmacm.PortSpaceTCP)
		require.NoError(t, err)
		require.NoError(t, id.BindAddr(netip.AddrPortFrom(d.Addrs()[0], 0)))
		ids[id] = true
	}
	closed, err := rdmacm.CreateID(ch, rdmacm.PortSpaceTCP)
	require.NoError(t, err)
	require.NoError(t, closed.BindAddr(netip.AddrPortFrom(d.Addrs()[0], 0)))
	require.NoError(t, closed.Close())
	why := errors.New("cable eaten")
	broken.Break(why)
	for range 3 {
		e, err := ch.Get(ctx)
		require.NoError(t, err)
		require.Equal(t, rdmacm.EventDeviceRemoval, e.Type)
		require.True(t, ids[e.ID])
		require.ErrorIs(t, e.Err, why)
		delete(ids, e.ID)
		require.NoError(t, e.ID.Close())
	}
	_, err = ch.Get(ctx)
	require.ErrorIs(t, err, why)
	require.ErrorIs(t, err, net.ErrClosed)
}
