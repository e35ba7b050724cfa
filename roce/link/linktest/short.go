package linktest

import (
	"testing"

	"github.com/goroce/goroce/internal/seeds"
)

// times is how often something is repeated; with -short, and under the race detector, it is a fifth
// of that.
func times(n int) int {
	if testing.Short() || seeds.Race {
		return (n + 4) / 5
	}
	return n
}
