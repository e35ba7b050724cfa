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

// packetsOf are packets with the PSNs, of an opcode.
func packetsOf(op uint8, psns ...uint32) (out []*wire.Packet) {
	for _, psn := range psns {
		out = append(out, &wire.Packet{Opcode: op, PSN: psn})
	}
	return out
}

func TestOnlyFrom(t *testing.T) {
	for name, c := range map[string]struct {
		sent []uint32
		want string
	}{
		"from the lost one on": {[]uint32{1, 2, 3, 4, 3, 4}, ""},
		"with probes":          {[]uint32{1, 2, 3, 4, 4, 1, 3, 4}, ""},
		"never":                {[]uint32{1, 2, 3, 4}, "sent 1 times"},
		"for ever":             {[]uint32{1, 2, 3, 4, 3, 3, 3, 3}, "sent 5 times"},
	} {
		t.Run(name, func(t *testing.T) {
			err := onlyFrom(3, packetsOf(0, c.sent...))
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
	require.ErrorContains(t, onlyFrom(5, packetsOf(0, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6)), "4 packets before")
}

func TestAskedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		sent []uint32
		want string
	}{
		"at once":     {[]uint32{0, 4}, ""},
		"after one":   {[]uint32{0, 1, 4, 4}, ""},
		"after three": {[]uint32{0, 1, 2, 3, 4}, "request 4 is"},
		"too little":  {[]uint32{0, 5, 4}, "request 2 is"},
		"not at all":  {[]uint32{0}, "none for PSN 0x4"},
		"nothing":     {nil, "0 READ requests"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := askedAgain(4, packetsOf(wire.OpReadRequest, c.sent...))
			if c.want == "" {
				require.NoError(t, err)
				require.EqualValues(t, 4, p.PSN)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := askedAgain(4, append(packetsOf(wire.OpReadRequest, 0), packetsOf(0, 4)...))
	require.Error(t, err, "no READ request")
}
