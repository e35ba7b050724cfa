package sim

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// deadlock begins the value with which synctest panics when no goroutine of a bubble can go on: all
// wait for ever, or those left when the test has ended sleep, while no time passes any more.
const deadlock = "deadlock: "

// stuck is deferred. It turns the panic for goroutines that cannot go on into an error of their
// test; the panic would end the test binary, and all other tests with it.
func stuck(t *testing.T) {
	t.Helper()
	switch v := recover(); err := v.(type) {
	case nil:
	case error:
		if !strings.HasPrefix(err.Error(), deadlock) {
			panic(v)
		}
		t.Errorf("sim: %v:\n\n%s", err, bubbles())
	default:
		panic(v)
	}
}

// bubbles returns the stacks of all goroutines in a bubble.
func bubbles() string {
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var in []string
	for g := range strings.SplitSeq(string(buf), "\n\n") {
		if head, _, _ := strings.Cut(g, "\n"); strings.Contains(head, "synctest bubble") {
			in = append(in, g)
		}
	}
	if len(in) == 0 {
		return fmt.Sprintf("no goroutine says that it is in a bubble: %s", buf)
	}
	return strings.Join(in, "\n\n")
}
