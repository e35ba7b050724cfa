package drill

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEngine plays all drills on the engine.
func TestEngine(t *testing.T) {
	target := NewEngine()
	for _, d := range List() {
		t.Run(d.Name, func(t *testing.T) {
			r := Run(t.Context(), d, target, Options{})
			require.True(t, r.OK(), "%v\n%s", r, r.Ladder)
			if len(d.Deviates(Goroce)) > 0 {
				require.Equal(t, Deviates, r.Verdict, "the script says that goroce deviates, and it does not")
			} else {
				require.Equal(t, Pass, r.Verdict)
			}
		})
	}
}
