//go:build race

package seeds

// Race is whether the race detector is on.
const Race = true
