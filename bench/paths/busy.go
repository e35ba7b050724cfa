package paths

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// busyTime is what the processors have done so far.
type busyTime struct {
	busy, all float64 // in ticks of all processors
	own       float64 // seconds of the processes of a round
	at        time.Time
}

// machineTime reads it.
func machineTime() busyTime {
	t := busyTime{at: time.Now()}
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t
	}
	line, _, _ := strings.Cut(string(b), "\n")
	for i, f := range strings.Fields(line) {
		n, err := strconv.ParseFloat(f, 64)
		if err != nil || i > 8 { // guests are in user time already
			continue
		}
		if t.all += n; i != 4 && i != 5 { // idle, iowait
			t.busy += n
		}
	}
	return t
}

// others is which share of the time since before processes took that are not of the round.
func (t *busyTime) others(before *busyTime) float64 {
	if t.all <= before.all {
		return 0
	}
	const ticks = 100 // a second
	return max(0, (t.busy-before.busy-(t.own-before.own)*ticks)/(t.all-before.all))
}
