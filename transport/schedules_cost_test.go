package transport_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var costFlag = flag.Bool("cost", false, "TestEverySchedule: write what the programs cost into "+costFile)

const costFile = "testdata/schedules_cost.txt"

// cost is what the schedules of a program cost: packets, and time. The oracle says what must never
// happen; this says what is sent again and when. The worst and the sum are kept: so a change of the
// engine that has anything sent sooner, later, more or less often in these programs changes a line
// of a file, which is there to be read. Of schedules that meet in a state the one that was walked
// first counts.
type cost struct {
	worst, sum costs
	ends       int
	all        uint32 // checksum of all counters
}

type costs struct {
	sent, again, timeouts, naks, answers uint64
	took                                 time.Duration
}

// end notes what the schedule that has led to this end has cost.
func (c *cost) end(w *world) {
	x := costs{took: time.Duration(w.now - second)}
	for _, e := range w.ends {
		n := e.eng.Counters()
		for _, v := range countersOf(&n) {
			c.all = c.all*31 + uint32(v)
		}
		x.sent += n.SentPkts
		x.again += n.RetransmittedPkts
		x.timeouts += n.Timeouts
		x.naks += n.SentSeqNAKs + n.ImpliedNAKs + n.SendRNRErr
		x.answers += n.DuplicateRequest
	}
	c.ends++
	c.worst = costs{
		max(c.worst.sent, x.sent), max(c.worst.again, x.again), max(c.worst.timeouts, x.timeouts),
		max(c.worst.naks, x.naks), max(c.worst.answers, x.answers), max(c.worst.took, x.took),
	}
	c.sum = costs{
		c.sum.sent + x.sent, c.sum.again + x.again, c.sum.timeouts + x.timeouts, c.sum.naks + x.naks,
		c.sum.answers + x.answers, c.sum.took + x.took,
	}
}

func (c *coverage) costs() string {
	x := &c.cost
	return fmt.Sprintf("%d %d | %v | %v | %08x", c.states, x.ends, x.worst, x.sum, x.all)
}

func (c costs) String() string {
	return fmt.Sprintf("%d %d %d %d %d %v", c.sent, c.again, c.timeouts, c.naks, c.answers, c.took)
}

const costHead = `# What the schedules of small programs cost: go test ./transport -run 'TestEverySchedule$' -cost
# program | states, ends | the worst of them | all together: packets sent, sent again, timeouts, NAKs, repeated requests, time | checksum of all counters
`

// checkCosts compares costs with the file, or writes it.
func checkCosts(t *testing.T, names []string, of map[string]string) {
	if *costFlag {
		var b strings.Builder
		b.WriteString(costHead)
		for _, n := range names {
			fmt.Fprintf(&b, "%s | %s\n", n, of[n])
		}
		require.NoError(t, os.WriteFile(costFile, []byte(b.String()), 0o644))
		return
	}
	data, err := os.ReadFile(costFile)
	require.NoError(t, err)
	for line := range strings.Lines(strings.TrimPrefix(string(data), costHead)) {
		name, was, _ := strings.Cut(strings.TrimSpace(line), " | ")
		if now, ok := of[name]; ok && now != was {
			t.Errorf("%s costs\n%s, and did\n%s\nIf that is meant: go test ./transport -run 'TestEverySchedule$' -cost",
				name, now, was)
		}
	}
}
