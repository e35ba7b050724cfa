package scale

import (
	"slices"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/seeds"
)

// Five groups of three commit at once while flows cross, and as many without them. What raft draws
// at random is its own: two runs differ.
func TestLog(t *testing.T) {
	l := Log{Hosts: 16, Members: 3, Clients: 2, Bytes: 128, For: 300 * time.Microsecond, Rate: 40e9,
		Cable: time.Microsecond, QueueBytes: 1 << 20, Seed: 1}
	crossing := []float64{0, 0.3}
	if seeds.Race { // machines take turns: the detector finds no more in a longer run
		l.For, crossing = l.For/8, crossing[1:]
	}
	for _, l.Cross = range crossing {
		r, err := l.Run()
		if err != nil {
			t.Fatal(err)
		}
		if seeds.Race {
			break
		}
		if r.Groups != 5 || len(r.Commits) < 5*l.Clients || r.Jain <= 0 || r.Jain > 1.0001 {
			t.Errorf("%d commits of %d groups, fairness %v", len(r.Commits), r.Groups, r.Jain)
		}
		if least := slices.Min(r.Slowdowns); least < 1 {
			t.Errorf("a commit took %v of the least that it can", least)
		}
		if (r.Flows > 0) != (l.Cross > 0) {
			t.Errorf("%d flows crossed", r.Flows)
		}
		t.Logf("%d commits, p50 %v, p99.9 %v, ideal %v, fairness %.3f, %d flows, %d packets, %d dropped, %v",
			len(r.Commits), Percentile(r.Commits, 0.5), Percentile(r.Commits, 0.999), r.Ideal, r.Jain,
			r.Flows, r.Packets, r.Dropped, r.Wall)
	}
}
