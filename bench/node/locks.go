package node

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
)

// LockWait is how long goroutines have waited for locks that a function held.
type LockWait struct {
	Func    string // that gave the lock back, outside of packages sync and runtime
	Seconds float64
}

// StartLocks begins to note every wait for a lock.
func (n *Node) StartLocks(struct{}, *struct{}) error {
	n.locks = nil
	before, err := mutexProfile()
	if err != nil {
		return err
	}
	n.locks = before
	runtime.SetMutexProfileFraction(1)
	return nil
}

// StopLocks ends that, and returns what was waited for since, the longest first.
func (n *Node) StopLocks(_ struct{}, waits *[]LockWait) error {
	runtime.SetMutexProfileFraction(0)
	after, err := mutexProfile()
	if err != nil {
		return err
	}
	for _, f := range slices.Sorted(maps.Keys(after)) {
		if s := after[f] - n.locks[f]; s > 0 {
			*waits = append(*waits, LockWait{f, s})
		}
	}
	slices.SortStableFunc(*waits, func(a, b LockWait) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return nil
}

// mutexProfile sums pprof's mutex profile up: seconds by function.
func mutexProfile() (map[string]float64, error) {
	var text bytes.Buffer
	if err := pprof.Lookup("mutex").WriteTo(&text, 1); err != nil {
		return nil, err
	}
	return parseMutexProfile(&text)
}

// A mutex profile as text: a line with the unit, then for each stack a line with cycles, a count
// and addresses, and one for each function.
var (
	unitLine  = regexp.MustCompile(`^cycles/second=(\d+)$`)
	stackLine = regexp.MustCompile(`^(\d+) \d+ @`)
	frameLine = regexp.MustCompile(`^#\s+0x[0-9a-f]+\s+(.+)\+0x[0-9a-f]+\s`)
)

func parseMutexProfile(text *bytes.Buffer) (map[string]float64, error) {
	perSecond, cycles := 0.0, 0.0 // cycles of a stack whose function is not known yet
	sums := map[string]float64{}
	for sc := bufio.NewScanner(text); sc.Scan(); {
		line := sc.Text()
		if m := unitLine.FindStringSubmatch(line); m != nil {
			perSecond, _ = strconv.ParseFloat(m[1], 64) // digits
		} else if m := stackLine.FindStringSubmatch(line); m != nil {
			if perSecond == 0 {
				return nil, errors.New("mutex profile without a unit")
			}
			cycles, _ = strconv.ParseFloat(m[1], 64)
		} else if m := frameLine.FindStringSubmatch(line); m != nil && cycles != 0 && !ofLocks(m[1]) {
			sums[m[1]] += cycles / perSecond
			cycles = 0
		}
	}
	if perSecond == 0 {
		return nil, fmt.Errorf("no mutex profile: %.80q", text.String())
	}
	return sums, nil
}

// ofLocks reports whether a function is a lock's own.
func ofLocks(name string) bool {
	for _, p := range []string{"sync.", "internal/sync.", "runtime."} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return strings.HasSuffix(name, "(*Shard).Unlock")
}
