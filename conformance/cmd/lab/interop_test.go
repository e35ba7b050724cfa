package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFullOn(t *testing.T) {
	for _, c := range []struct {
		full        string
		quick       bool
		udp, packet bool
		err         string
	}{
		{"", false, true, true, ""},
		{"", true, false, false, ""},
		{"udp", false, true, false, ""},
		{"udp,packet", false, true, true, ""},
		{"udp", true, false, false, "on no link"},
		{"upd", false, false, false, "upd"},
	} {
		full, err := fullOn(c.full, c.quick)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.udp, full("udp"), "%+v", c)
		require.Equal(t, c.packet, full("packet"), "%+v", c)
	}
}
