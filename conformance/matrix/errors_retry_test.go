package matrix

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/lab/wire"
)

func TestPatientEnough(t *testing.T) {
	us, guest := addrs[0], addrs[1]
	request := func(psn uint32) wire.Event { return wire.Event{Pkt: &wire.Packet{Src: us, Dst: guest, PSN: psn}} }
	answer := func(psn uint32, fate string) wire.Event {
		return wire.Event{Pkt: &wire.Packet{Src: guest, Dst: us, PSN: psn, Opcode: wire.OpAcknowledge}, Fate: fate}
	}
	times := func(n int, e wire.Event) (out []wire.Event) {
		for range n {
			out = append(out, e)
		}
		return out
	}
	const enough = (shortRetry + 1) * tenseTime
	const most = 1 + shortRetry + lossProbes
	for name, c := range map[string]struct {
		events []wire.Event
		took   time.Duration
		timer  bool
		want   string
	}{
		"as often as it may":     {times(most, request(7)), enough, true, ""},
		"once too often":         {times(most+1, request(7)), enough, true, "sent 6 times"},
		"too soon":               {times(shortRetry+1, request(7)), enough - 1, true, "gave up after"},
		"a NAK is sooner":        {times(shortRetry+1, request(7)), time.Millisecond, false, ""},
		"progress gives it back": {append(append(times(2, request(7)), answer(6, "")), times(most, request(7))...), enough, true, ""},
		"a lost answer does not": {append(append(times(2, request(7)), answer(6, "drop")), times(most-1, request(7))...), enough, true, "sent 6 times"},
		"nor does an old one":    {append(append([]wire.Event{answer(6, "")}, times(2, request(7))...), append([]wire.Event{answer(6, "")}, times(most-1, request(7))...)...), enough, true, "sent 6 times"},
		"across the PSNs' wrap":  {append(append([]wire.Event{answer(psnMask, "")}, times(2, request(0))...), append([]wire.Event{answer(0, "")}, times(3, request(1))...)...), enough, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := patientEnough(c.events, guest, c.took, c.timer)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}
