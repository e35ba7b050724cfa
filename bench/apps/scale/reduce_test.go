package scale

import (
	"testing"
	"time"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/transport/cc"
)

// small is 16 hosts, which a tree of switches with 4 ports has room for.
var small = AllReduce{Hosts: 16, Bytes: 256 << 10, Calls: 2, Rate: 40e9, Cable: time.Microsecond,
	QueueBytes: 1 << 20, Scattered: true, Seed: 1}

func TestAllReduce(t *testing.T) {
	small := small
	if seeds.Race { // ranks take turns: the detector finds no more in a longer run
		small.Bytes, small.Calls = small.Bytes/16, 1
	}
	dcqcn := small
	dcqcn.Congestion, dcqcn.RED = cc.Config{Algorithm: cc.DCQCNPaper},
		sim.RED{KminBytes: 5e3, KmaxBytes: 200e3, Pmax: 0.01}
	narrow := small
	narrow.QueueBytes = 20 << 10
	for name, a := range map[string]AllReduce{"none": small, "dcqcn": dcqcn, "small queues": narrow} {
		t.Run(name, func(t *testing.T) {
			r, err := a.Run()
			if err != nil {
				t.Fatal(err)
			}
			if r.Median() < r.Ideal {
				t.Errorf("a call takes %v, and cannot take less than %v", r.Median(), r.Ideal)
			}
			if !seeds.Race {
				again, err := a.Run()
				if err != nil {
					t.Fatal(err)
				}
				if r.Packets != again.Packets || r.Median() != again.Median() || r.Dropped != again.Dropped {
					t.Errorf("two runs differ: %+v, %+v", r, again)
				}
			}
			t.Logf("%v, ideal %v, spread %v, %d packets, %d dropped, %d marked, %v", r.Calls, r.Ideal,
				r.Spread, r.Packets, r.Dropped, r.Marked, r.Wall)
		})
	}
}
