package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFullOn(t *testing.T) {
	suites := []string{"bookworm", "trixie"}
	for _, c := range []struct {
		full       string
		quick      bool
		udp, other bool // everything is run on udp, against trixie's kernel and the other
		packet     bool
		err        string
	}{
		{"", false, true, true, true, ""},
		{"", true, false, false, false, ""},
		{"udp", false, true, true, false, ""},
		{"udp,packet", false, true, true, true, ""},
		{"udp:trixie", false, true, false, false, ""},
		{"udp:trixie,packet", false, true, false, true, ""},
		{"udp", true, false, false, false, "on no link"},
		{"upd", false, false, false, false, "upd"},
		{"udp:sid", false, false, false, false, "udp:sid"},
	} {
		full, err := fullOn(c.full, c.quick, suites)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.udp, full("udp", "trixie"), "%+v", c)
		require.Equal(t, c.other, full("udp", "bookworm"), "%+v", c)
		require.Equal(t, c.packet, full("packet", "trixie"), "%+v", c)
	}
}

func TestLinksTo(t *testing.T) {
	r := &runner{links: []string{"udp", "packet:bookworm", "xdp:trixie", "udp:trixie"}}
	require.Equal(t, []string{"udp", "packet"}, r.linksTo("bookworm"))
	require.Equal(t, []string{"udp", "xdp"}, r.linksTo("trixie"))
	require.NoError(t, checkPlaces("-link", r.links, []string{"bookworm", "trixie"}))
}
