package matrix

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/pcap"
)

// A requester that asks and a responder with eight responses, or requests of eight packets, PSN
// 0xfffffe to 5: the analyser's answers about the fifth, 2.
const (
	firstOf, lostOf = 0xfffffe, 2
	missingBytes    = faultSize - 4*faultMTU
)

// repaired is what the analyser says of packets in order.
func repaired(response bool, all ...pcap.Packet) *analyse.Repair {
	end := func(i int, qpn ib.QPN) analyse.Endpoint {
		return analyse.Endpoint{Addr: addrs[i], QPN: qpn, Known: true}
	}
	l := analyse.Loss{Requester: end(0, toUs), Responder: end(1, toGuest), PSN: lostOf, Response: response,
		Request: firstOf, MTU: faultMTU}
	a := analyse.New(analyse.Options{Conduct: &analyse.Conduct{Losses: []analyse.Loss{l}}})
	for i := range all {
		all[i].Frame, all[i].AtNs = i+1, int64(i+1)*int64(ms)
		a.Add(&all[i])
	}
	return a.Report().Repairs[0]
}

func ask(psn uint32, n uint32) pcap.Packet {
	p := packetAt(addrs[0], 0, ib.RCReadRequest, toGuest, psn)
	p.RETH.Len = n
	return p
}

// responses are those to a READ, but for one.
func responses(from, to, but uint32) (all []pcap.Packet) {
	for psn := from; psn != to; psn = (psn + 1) & psnMask {
		if psn != but {
			all = append(all, packetAt(addrs[1], 0, ib.RCReadRespMiddle, toUs, psn))
		}
	}
	return all
}

func TestAskedAgain(t *testing.T) {
	all, rest := ask(firstOf, faultSize), ask(lostOf, missingBytes)
	first := responses(firstOf, 6, lostOf) // without the one that was lost
	const none = 1000
	after := responses(lostOf, 6, none)
	begin, end := ask(firstOf, 4*faultMTU), ask(4, missingBytes-2*faultMTU) // of three parts
	steps := func(parts ...any) (out []pcap.Packet) {
		for _, p := range parts {
			switch p := p.(type) {
			case pcap.Packet:
				out = append(out, p)
			case []pcap.Packet:
				out = append(out, p...)
			}
		}
		return out
	}
	for name, c := range map[string]struct {
		packets []pcap.Packet
		how     asking
		want    string
	}{
		"for the rest":       {steps(all, first, rest, after), forTheRest, ""},
		"twice for the rest": {steps(all, first, rest, rest, after), forTheRest, ""},
		"a probe before":     {steps(all, all, first, rest, after), forTheRest, ""},
		"a probe in the middle": {steps(all, responses(firstOf, 1, none), ask(1, missingBytes+faultMTU),
			responses(1, 6, lostOf), rest, after), forTheRest, ""},
		"probes, and progress": {steps(all, all, all, responses(firstOf, 0, none), ask(0, 1), ask(0, 1),
			responses(0, 6, lostOf), rest, after), forTheRest, ""},
		// Seen on a busy machine.
		"a probe has the answer": {steps(all, all, first, responses(firstOf, 6, none)), before, ""},
		"for all":                {steps(all, first, all, responses(firstOf, 6, none)), forAll, ""},
		"the next READ":          {steps(all, first, rest, after, ask(6, faultSize)), forTheRest, ""},
		"three probes": {steps(all, all, all, all, first, rest, after), 0,
			"3 READ requests again for other"},
		"for less": {steps(all, first, ask(lostOf+1, missingBytes-faultMTU), rest, after), 0,
			"is for PSN 0x3"},
		"for too few bytes": {steps(all, first, ask(lostOf, missingBytes-1), after), 0, "want the missing"},
		"for nothing":       {steps(all, first), 0, "0 READ requests again, and none for PSN 0x2"},
		"nothing":           {nil, 0, "none for PSN 0x2"},
		// Seen with a slow peer.
		"in parts, the first of one": {steps(begin, ask(lostOf, 2*faultMTU), end, responses(lostOf, 4, lostOf),
			ask(lostOf, faultMTU), responses(4, 6, none), responses(lostOf, lostOf+1, none)), forTheRest, ""},
		"in parts, one inside": {steps(ask(firstOf, 6*faultMTU), end, responses(firstOf, 4, lostOf),
			ask(lostOf, 2*faultMTU), responses(lostOf, 6, none)), forTheRest, ""},
		"in parts, the last of one": {steps(ask(firstOf, 5*faultMTU), ask(3, missingBytes-faultMTU), first,
			ask(lostOf, faultMTU), responses(lostOf, lostOf+1, none)), forTheRest, ""},
		"in parts, a probe for the last": {steps(begin, ask(lostOf, 2*faultMTU), end, end, first,
			ask(lostOf, 2*faultMTU), responses(lostOf, 6, none)), forTheRest, ""},
		"in parts, a probe for the first": {steps(begin, begin, ask(lostOf, 2*faultMTU), end, first,
			ask(lostOf, 2*faultMTU), responses(lostOf, 6, none)), forTheRest, ""},
		"in parts, for all": {steps(ask(firstOf, 6*faultMTU), end, first, ask(firstOf, 6*faultMTU),
			responses(firstOf, 6, none)), forAll, ""},
		"in parts, for more than its own": {steps(begin, ask(lostOf, 2*faultMTU), end, first, rest, after), 0,
			"want the missing 2048"},
		"in parts, for less": {steps(begin, ask(lostOf, 2*faultMTU), end, first, ask(lostOf+1, faultMTU), after), 0,
			"is for PSN 0x3"},
		"in parts, only behind": {steps(begin, ask(lostOf, 2*faultMTU), end, first, end, after), 0,
			"0 READ requests again, and none for PSN 0x2"},
		"in parts, once": {steps(begin, ask(lostOf, 2*faultMTU), end, first), 0,
			"0 READ requests again, and none for PSN 0x2"},
		"in parts, three probes": {steps(begin, begin, ask(lostOf, 2*faultMTU), end, end, end,
			first, rest, after), 0, "3 READ requests again for other"},
	} {
		t.Run(name, func(t *testing.T) {
			how, err := askedAgain(repaired(true, c.packets...), lossProbes)
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.how, how)
		})
	}
}

// A requester that has lost packets lately asks more often, but not without end.
func TestAskedAgainWhereLost(t *testing.T) {
	for probes, want := range map[int]string{
		lossProbes + 1: "", lossyReads: "", lossyReads + 1: "33 READ requests again for other",
	} {
		packets := []pcap.Packet{ask(firstOf, faultSize)}
		for range probes {
			packets = append(packets, ask(firstOf, faultSize))
		}
		packets = append(packets, responses(firstOf, 6, lostOf)...)
		packets = append(packets, ask(lostOf, missingBytes))
		r := repaired(true, append(packets, responses(lostOf, 6, 1000)...)...)
		how, err := askedAgain(r, lossyReads)
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, forTheRest, how)
		_, err = askedAgain(r, lossProbes)
		require.ErrorContains(t, err, "want 2 probes at most")
	}
}

func TestOnlyFrom(t *testing.T) {
	for name, c := range map[string]struct {
		sent []uint32
		want string
	}{
		"from the lost one on": {[]uint32{0, 1, 2, 3, 4, 2, 3, 4}, ""},
		"with probes":          {[]uint32{0, 1, 2, 3, 4, 4, 0, 2, 3, 4}, ""},
		"with many, in time":   {[]uint32{0, 1, 2, 3, 4, 0, 0, ackOf(0), 1, 1, ackOf(1), 2, 3, 4}, ""},
		"too many":             {[]uint32{0, 1, 2, 3, 4, 0, 0, ackOf(0xffffff), 0, 2, 3, 4}, "3 packets before"},
		"never":                {[]uint32{0, 1, 2, 3, 4}, "sent 1 times"},
		"for ever":             {[]uint32{0, 1, 2, 3, 4, 2, 2, 2, 2}, "sent 5 times"},
		"from the first on":    {[]uint32{0xffffff, 0, 1, 2, 3, 4, 0xffffff, 0, 1, 2, 3, 4}, "3 packets before"},
	} {
		t.Run(name, func(t *testing.T) {
			// An answer to what came before all is there first.
			all := said(addrs[1], toUs, 0xffffff, 0, true)
			for _, psn := range c.sent {
				if psn&answered != 0 {
					all = append(all, said(addrs[1], toUs, psn&psnMask, 0, true)...)
				} else {
					all = append(all, sent(addrs[0], toGuest, psn, 0)...)
				}
			}
			err := onlyFrom(repaired(false, all...))
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

// answered marks a PSN that the responder acknowledges.
const answered = 1 << 24

func ackOf(psn uint32) uint32 { return psn | answered }

func TestRNRNAKs(t *testing.T) {
	for _, c := range []struct {
		naks, probes int
		right        bool
	}{{3, 0, true}, {2, 0, false}, {4, 0, false}, {3, 2, true}, {5, 2, true}, {6, 2, false}, {2, 2, false}} {
		require.Equal(t, c.right, rightRNRNAKs(c.naks, c.probes) == nil, c)
	}
}

func TestTooSoon(t *testing.T) {
	const least = (shortRetry + 1) * tenseTime
	require.NoError(t, tooSoon(least, true))
	require.ErrorContains(t, tooSoon(least-1, true), "gave up after")
	require.NoError(t, tooSoon(ms, false), "a NAK is sooner")
}
