package tool

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGIDIndex(t *testing.T) {
	one := []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	two := append(one[:1:1], netip.MustParseAddr("fd00::1"))
	for _, c := range []struct {
		addrs       []netip.Addr
		index, want int // want -1: refused
	}{{one, 0, 0}, {one, 1, 0}, {one, 3, 0}, {one, 4, -1}, {two, 0, 0}, {two, 1, 1}, {two, 2, -1}} {
		got, err := GIDIndex("-x", c.index, c.addrs)
		if c.want < 0 {
			require.ErrorContains(t, err, "-x ")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%d of %v", c.index, c.addrs)
	}
}
