package matrix

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/lab/wire"
)

const ms = time.Millisecond

// addrs are this module's and the guest's.
var addrs = []netip.Addr{netip.MustParseAddr("10.77.0.100"), netip.MustParseAddr("10.77.0.10")}

const (
	toGuest = 0x11 // queue pairs
	toUs    = 0x12
)

// sent is a request that one side sent at times in ms.
func sent(from netip.Addr, qpn, psn uint32, at ...int) (out []sighting) {
	for _, t := range at {
		out = append(out, sighting{at: time.Duration(t) * ms, src: from, qpn: qpn, psn: psn, request: true})
	}
	return out
}

// said is a response to it.
func said(from netip.Addr, qpn, psn uint32, at int, confirms bool) []sighting {
	return []sighting{{at: time.Duration(at) * ms, src: from, qpn: qpn, psn: psn, confirms: confirms}}
}

// speaksAt makes the function that tells when the guest was silent: but for times in ms.
func speaksAt(at ...int) func(from, to time.Duration) bool {
	return func(from, to time.Duration) bool {
		return !slices.ContainsFunc(at, func(t int) bool { return from < time.Duration(t)*ms && time.Duration(t)*ms < to })
	}
}

func TestStarvation(t *testing.T) {
	us, guest := addrs[0], addrs[1]
	ours := sent(us, toGuest, 7, 0, 67, 134, 201, 268, 335, 402, 469)
	theirs := sent(guest, toUs, 9, 1000, 2000, 3000, 4000)
	for name, c := range map[string]struct {
		all    []sighting
		gaveUp []netip.Addr
		silent func(from, to time.Duration) bool
		want   bool
		what   string
	}{
		"the guest stands still":                     {ours, addrs[:1], speaksAt(), true, "the guest stood still while PSN 0x7 for QP 0x11 was sent 8 times in 469 ms"},
		"the guest stands still after a while":       {ours, addrs[:1], speaksAt(30), true, "stood still"},
		"the guest wakes up too late":                {ours, addrs[:1], speaksAt(500), true, "stood still"},
		"the guest serves others":                    {ours, addrs[:1], speaksAt(300), false, "was running"},
		"the guest is busy sending":                  {slices.Concat(ours, sent(guest, toUs, 9, 50), said(us, toGuest, 9, 60, true), sent(guest, toUs, 9, 150)), addrs[:1], speaksAt(150), true, "did not look at what arrived"},
		"the guest sends again, without an answer":   {slices.Concat(ours, sent(guest, toUs, 9, 50), said(us, toGuest, 8, 60, true), sent(guest, toUs, 9, 150)), addrs[:1], speaksAt(150), false, "was running"},
		"the guest sends what is new":                {slices.Concat(ours, sent(guest, toUs, 9, 50), said(us, toGuest, 9, 60, true), sent(guest, toUs, 10, 150)), addrs[:1], speaksAt(150), false, "was running"},
		"nothing was sent":                           {nil, addrs[:1], speaksAt(), false, "no request was seen"},
		"what was sent was not repeated":             {slices.Concat(sent(us, toGuest, 7, 0, 67), sent(us, toGuest, 8, 469)), addrs[:1], speaksAt(), false, "no request was seen"},
		"goroce does not answer":                     {theirs, addrs[1:], speaksAt(), false, "the guest got no answer while PSN 0x9"},
		"goroce answers, the guest is deaf":          {slices.Concat(theirs, said(us, toGuest, 9, 1001, true)), addrs[1:], speaksAt(), true, "did not look"},
		"goroce answers for later ones, too":         {slices.Concat(theirs, said(us, toGuest, 12, 1001, true)), addrs[1:], speaksAt(), true, "did not look"},
		"goroce answers only at the end":             {slices.Concat(theirs, said(us, toGuest, 9, 4001, true)), addrs[1:], speaksAt(), false, "got no answer"},
		"goroce answers what was before":             {slices.Concat(theirs, said(us, toGuest, 8, 1001, true)), addrs[1:], speaksAt(), false, "got no answer"},
		"goroce refuses, or answers damaged":         {slices.Concat(theirs, said(us, toGuest, 9, 1001, false)), addrs[1:], speaksAt(), false, "got no answer"},
		"the guest gives up after it stood still":    {slices.Concat(ours, theirs), addrs, speaksAt(), true, "stood still while PSN 0x7"},
		"goroce gives up after it did not answer":    {slices.Concat(theirs, sent(us, toGuest, 7, 4500, 4600, 4700)), addrs, speaksAt(), false, "the guest got no answer while PSN 0x9"},
		"the oldest of those repeated counts":        {slices.Concat(sent(us, toGuest, 0xffffff, 0, 67, 134), sent(us, toGuest, 0, 1, 68, 135)), addrs[:1], speaksAt(), true, "PSN 0xffffff"},
		"what was repeated before, with success, no": {slices.Concat(sent(us, toGuest, 1, 0, 1, 2, 3), ours[1:]), addrs[:1], speaksAt(10), true, "PSN 0x7"},
	} {
		t.Run(name, func(t *testing.T) {
			what, starved := starvation(c.all, c.gaveUp, guest, c.silent)
			require.Equal(t, c.want, starved, what)
			require.Contains(t, what, c.what)
		})
	}
}

// The wire's packets become what starvation looks at.
func TestSightings(t *testing.T) {
	request := &wire.Packet{Src: addrs[0], Dst: addrs[1], Opcode: wire.OpWriteOnly, QPN: toGuest, PSN: 5}
	datagram := &wire.Packet{Src: addrs[0], Dst: addrs[1], Opcode: wire.OpUDSendOnly, QPN: toGuest, PSN: 5}
	got := seen([]wire.Event{
		{At: 1, Pkt: request},
		{At: 2, Pkt: request, Fate: "drop"},
		{At: 3, Pkt: request, Fate: "corrupt"},
		{At: 4, Pkt: datagram},
	})
	require.Equal(t, []sighting{{at: 1, src: addrs[0], qpn: toGuest, psn: 5, request: true}}, got)
}

func TestRecorderKeepsTheLast(t *testing.T) {
	now := time.Duration(0)
	r := &recorder{now: func() time.Duration { now++; return now }, between: [2]netip.Addr(addrs)}
	const n = 5*rememberedPackets + 3
	const payload = 7
	frame := make([]byte, 12+payload+4) // BTH and ICRC
	for range n {
		r.packet(&wire.Packet{Frame: frame, Src: addrs[1], Dst: addrs[0], Opcode: wire.OpWriteOnly})
	}
	r.packet(&wire.Packet{Frame: frame, Src: addrs[1], Dst: netip.MustParseAddr("10.77.0.101"), Opcode: wire.OpWriteOnly})
	require.Equal(t, n*payload, r.moved())
	r.packet(&wire.Packet{Frame: frame, Src: addrs[0], Dst: netip.MustParseAddr("239.77.1.7"), Opcode: wire.OpUDSendOnly})
	require.Equal(t, (n+1)*payload, r.moved(), "to a group")
	got := r.sightings()
	require.GreaterOrEqual(t, len(got), rememberedPackets)
	require.EqualValues(t, n, got[len(got)-1].at)
}

func TestExhausted(t *testing.T) {
	for text, want := range map[string]bool{
		"Failed status transport retry counter exceeded (12) for wr_id 2": true,
		" Failed status 12: wr_id 0 syndrom 0x81":                         true,
		"cq completion failed status 12":                                  true,
		"Failed status RNR retry counter exceeded (13) for wr_id 2":       false,
		"Failed status 10: wr_id 0 syndrom 0x88":                          false,
	} {
		require.Equal(t, want, exhausted(text), text)
	}
}
