package scale

import (
	"slices"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/link/sim"
)

// With PFC nothing is dropped or sent again, and all flows end: ways go up and then down, so that
// no cables wait for each other in a circle.
func TestFlowsThatPause(t *testing.T) {
	seeds.Long(t)
	f := Flows{Hosts: 16, Load: 0.9, For: 200 * time.Microsecond, Rate: 40e9, Cable: 2 * time.Microsecond,
		Window: 110, Seed: 1}
	f.PFC = sim.PFC{XOFFBytes: 12_000, XONBytes: 6_000, HeadroomBytes: 25_000} // soon: everywhere and often
	for _, f.GoBackN = range []bool{false, true} {
		r, err := f.Run()
		if err != nil {
			t.Fatal(err)
		}
		if r.Dropped > 0 || r.Again > 0 || r.Pauses == 0 {
			t.Errorf("%d packets dropped, %d sent again, %d pauses", r.Dropped, r.Again, r.Pauses)
		}
		if least := slices.Min(r.Slowdowns); least < 1 {
			t.Errorf("a flow took %v of what it takes alone", least)
		}
		t.Logf("%d flows, slowdown %.2f, %d packets, %d pauses, %v", len(r.Times), Mean(r.Slowdowns), r.Sent,
			r.Pauses, r.Wall)
	}
}

func TestFlows(t *testing.T) {
	f := Flows{Hosts: 16, Load: 0.7, For: 200 * time.Microsecond, Rate: 40e9, Cable: 2 * time.Microsecond,
		QueueBytes: 30 << 10, Window: 110, Seed: 1}
	if seeds.Race { // hosts take turns: the detector finds no more in a longer run
		f.For /= 8
	}
	for _, f.GoBackN = range []bool{false, true} {
		r, err := f.Run()
		if err != nil {
			t.Fatal(err)
		}
		if least := slices.Min(r.Slowdowns); least < 1 {
			t.Errorf("a flow took %v of what it takes alone", least)
		}
		if seeds.Race {
			break
		}
		if r.Dropped == 0 || r.Again == 0 {
			t.Errorf("queues of 30 KiB dropped %d packets, and %d were sent again", r.Dropped, r.Again)
		}
		again, err := f.Run()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.Times, again.Times) || r.Sent != again.Sent {
			t.Errorf("two runs differ: %d and %d packets", r.Sent, again.Sent)
		}
		t.Logf("%d flows, slowdown %.2f, mean %v, p99 %v, %d packets, %d again, %d dropped, %v", len(r.Times),
			Mean(r.Slowdowns), Mean(r.Times), Percentile(r.Times, 0.99), r.Sent, r.Again, r.Dropped, r.Wall)
	}
}
