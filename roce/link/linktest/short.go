package linktest

import "testing"

// times is how often something is repeated; with -short it is a fifth of that.
func times(n int) int {
	if testing.Short() {
		return (n + 4) / 5
	}
	return n
}
