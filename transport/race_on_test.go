//go:build race

package transport

// raceEnabled makes the longest tests shorter under the race detector, which
// slows them twenty times over and finds nothing in a package without
// goroutines that a shorter run does not.
const raceEnabled = true
