package drill

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUDP plays all drills on the udp link, with what is known of this module expected: TestEngine
// holds it against the specification.
func TestUDP(t *testing.T) {
	target, err := NewUDP(LoopbackUDP())
	require.NoError(t, err)
	defer target.Close()
	for _, d := range List() {
		t.Run(d.Name, func(t *testing.T) {
			r := Run(t.Context(), d, target, Options{Profile: Goroce})
			require.True(t, r.OK(), "%v\n%s", r, r.Ladder)
		})
	}
}
