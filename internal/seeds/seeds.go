// Package seeds runs tests that draw everything from a seed: a few seeds in every
// run of the tests, one that failed, or new ones for as long as one likes.
package seeds

import (
	"flag"
	"fmt"
	"testing"
	"time"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "seed to run, or to begin with if -swarm or -soak is given")
	countFlag = flag.Int("swarm", 0, "number of seeds; 0 for the number that the test wants")
	soakFlag  = flag.Duration("soak", 0, "run seeds for so long")
)

// With -short a test runs one of shortPart of its seeds; if it calls Fewer, it does one of racePart
// under the race detector.
const shortPart, racePart = 20, 14

// Fewer returns n, or a fourteenth of it under the race detector. It is for tests of code
// without goroutines, and of goroutines that take turns as in a simulation: all seeds have the same
// races or none, and the detector makes them ten times slower.
func Fewer(n int) int {
	if Race {
		return part(n, racePart)
	}
	return n
}

// Long skips a test under the race detector that takes long there. It is for code without
// goroutines, or with some that take turns, where the detector finds nothing in a long run that it
// does not find in a short one; make test32 runs the test.
func Long(t testing.TB) {
	if Race {
		t.Helper()
		t.Skip("left out under the race detector: it takes long there, and no goroutines run beside each other")
	}
}

// Slow skips a test in the short run, which is to answer while the programmer waits: the test takes
// a second, or makes networks for a case that other tests have nearly.
func Slow(t testing.TB) {
	if testing.Short() {
		t.Helper()
		t.Skip("left out of the short run: it takes long")
	}
}

func part(n, of int) int { return (n + of - 1) / of }

// One reports whether the run is of one seed, that somebody wants to look at.
func One() bool { return *seedFlag != 0 && *countFlag == 0 && *soakFlag == 0 }

// Run runs f as a subtest with n seeds, from 1 on, or as the flags say: -seed 7 is
// seed 7 alone, -swarm 1000 is a thousand of them, and -soak 10m, with -seed for the
// first, goes on for ten minutes. It stops at the first that fails, and says how to
// run that one again. It returns how many there were.
func Run(t *testing.T, n int, f func(t *testing.T, seed uint64)) int {
	t.Helper()
	if testing.Short() {
		n = part(n, shortPart)
	}
	if *countFlag > 0 {
		n = *countFlag
	}
	first := max(*seedFlag, 1)
	if One() {
		n = 1
	}
	begin := time.Now()
	ran := 0
	for more := true; more; {
		seed := first + uint64(ran)
		if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { f(t, seed) }) {
			t.Logf("again: go test -run '^%s$' -seed %d", t.Name(), seed)
			break
		}
		ran++
		if more = ran < n; *soakFlag > 0 {
			more = time.Since(begin) < *soakFlag
		}
	}
	if *soakFlag > 0 {
		fmt.Printf("%s%s %d\n", soakPrefix, t.Name(), ran)
	}
	return ran
}

// soakPrefix begins the line that tells the soak command how many seeds passed.
const soakPrefix = "soak: "
