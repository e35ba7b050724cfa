package switchlink

import (
	"testing"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/stretchr/testify/require"
)

// Interfaces that can be no end of a cable are refused, with their names.
func TestNoCable(t *testing.T) {
	for _, c := range [][2]string{{"no-such-if", "lo"}, {"lo", "no-such-if"}, {"lo", "lo"}} {
		sw := ether.New()
		_, err := NewCable(sw, c, [2]string{Near, Far})
		require.ErrorContains(t, err, c[0])
		sw.Close()
	}
}

// What this machine's kernel takes for its own is not passed on.
func TestOwnFrames(t *testing.T) {
	e := &End{mac: [6]byte{2, 0, 0, 0, 0, 9}, peer: &End{fd: -1}}
	for _, to := range [][6]byte{e.mac, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}} {
		e.frame(append(append(make([]byte, vnetBytes), to[:]...), 2, 0, 0, 0, 0, 1, 8, 0))
	}
	require.EqualValues(t, 1, e.Stats().Other)
}
