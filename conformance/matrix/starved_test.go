package matrix

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/switchlink"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/pcap"
)

const ms = time.Millisecond

// addrs are this module's and the guest's.
var addrs = []netip.Addr{netip.MustParseAddr("10.77.0.100"), netip.MustParseAddr("10.77.0.10")}

const (
	toGuest = 0x11 // queue pairs
	toUs    = 0x12
)

// from returns the other one of addrs, to whom it speaks.
func to(from netip.Addr) netip.Addr {
	if from == addrs[0] {
		return addrs[1]
	}
	return addrs[0]
}

func packetAt(from netip.Addr, at int, op ib.Opcode, qpn, psn uint32) pcap.Packet {
	p := pcap.Packet{AtNs: int64(at) * int64(ms), ICRC: pcap.ICRCRight}
	p.Flow = ib.Flow{Src: from, Dst: to(from), DstPort: ib.UDPPort}
	p.Opcode, p.DestQP, p.PSN = op, ib.QPN(qpn), ib.PSN(psn)
	return p
}

// sent is a request that one side sent at times in ms.
func sent(from netip.Addr, qpn, psn uint32, at ...int) (out []pcap.Packet) {
	for _, t := range at {
		out = append(out, packetAt(from, t, ib.RCWriteOnly, qpn, psn))
	}
	return out
}

// said is a response to it.
func said(from netip.Addr, qpn, psn uint32, at int, confirms bool) []pcap.Packet {
	p := packetAt(from, at, ib.RCAcknowledge, qpn, psn)
	if p.AETH.Syndrome = ib.ACKNoCredits; !confirms {
		p.AETH.Syndrome = ib.NAKSequence
	}
	return []pcap.Packet{p}
}

// reported is the analyser's report of packets.
func reported(all []pcap.Packet) *analyse.Report {
	a := analyse.New(analyse.Options{Recall: 1000})
	for i := range all {
		all[i].Frame = i + 1
		a.Add(&all[i])
	}
	return a.Report()
}

// spoke is when the guest sent something, in ms, and how many queue pairs were asked meanwhile if
// that was no RoCE.
type spoke struct {
	at    []int
	asked int
}

// speaksAt is for packets of RoCE.
func speaksAt(at ...int) spoke { return spoke{at: at} }

func (s spoke) SilentIn(from, to time.Duration) bool {
	return !slices.ContainsFunc(s.at,
		func(t int) bool { return from < time.Duration(t)*ms && time.Duration(t)*ms < to })
}

func (s spoke) MuteIn(_, _ time.Duration, qps int) bool { return s.asked >= qps }

func (s spoke) LongestSilences(from, to time.Duration) (frames, packets time.Duration) {
	return 30 * ms, to - from
}

func TestStarvation(t *testing.T) {
	us, guest := addrs[0], addrs[1]
	ours := sent(us, toGuest, 7, 0, 67, 134, 201, 268, 335, 402, 469)
	theirs := sent(guest, toUs, 9, 1000, 2000, 3000, 4000)
	for name, c := range map[string]struct {
		all    []pcap.Packet
		gaveUp []netip.Addr
		port   guestPort
		want   bool
		what   string
	}{
		"the guest stands still": {ours, addrs[:1], speaksAt(), true,
			"the guest stood still while PSN 0x7 for QP 0x11 was sent 8 times in 469 ms"},
		"the guest stands still after a while": {ours, addrs[:1], speaksAt(30), true, "stood still"},
		"the guest stands still after a probe": {slices.Concat(sent(us, toGuest, 7, 0, 1, 3), ours[1:]),
			addrs[:1], speaksAt(2, 30), true, "sent 10 times"},
		"it speaks between two retries": {slices.Concat(sent(us, toGuest, 7, 0, 1, 3), ours[1:]),
			addrs[:1], speaksAt(100), false, "was running"},
		"the guest wakes up too late": {ours, addrs[:1], speaksAt(500), true, "stood still"},
		"the guest serves others": {ours, addrs[:1], speaksAt(300), false,
			"was running (it was silent for 30 ms at most, and sent nothing of RoCE for 402 ms) while PSN 0x7"},
		"the guest answers nobody": {ours, addrs[:1], spoke{[]int{300}, 2}, true,
			"answered nobody, and several asked, while PSN 0x7"},
		"the guest answers too late": {slices.Concat(ours, said(guest, toUs, 9, 600, true)),
			addrs[:1], speaksAt(300), true, "the guest answered 131 ms after the last retry, when PSN 0x7"},
		"the guest answers in time": {slices.Concat(ours, said(guest, toUs, 9, 500, true)),
			addrs[:1], speaksAt(300), false, "was running"},
		"the guest answered before": {slices.Concat(ours[:7],
			said(guest, toUs, 9, 410, true), ours[7:], said(guest, toUs, 9, 600, true)), addrs[:1],
			speaksAt(300), false, "sent 8 times in 469 ms, and answered"},
		"nobody else asks":      {ours, addrs[:1], spoke{[]int{300}, 1}, false, "was running"},
		"goroce answers nobody": {theirs, addrs[1:], spoke{[]int{300}, 2}, false, "got no answer"},
		"the guest is busy sending": {slices.Concat(ours, sent(guest, toUs, 9, 50),
			said(us, toGuest, 9, 60, true), sent(guest, toUs, 9, 150)), addrs[:1], speaksAt(150), true,
			"did not look at what arrived"},
		"the guest sends again, without an answer": {slices.Concat(ours, sent(guest, toUs, 9, 50),
			said(us, toGuest, 8, 60, true), sent(guest, toUs, 9, 150)), addrs[:1], speaksAt(150), false, "was running"},
		"the guest sends what is new": {slices.Concat(ours, sent(guest, toUs, 9, 50),
			said(us, toGuest, 9, 60, true), sent(guest, toUs, 10, 150)), addrs[:1], speaksAt(150),
			false, "was running"},
		"nothing was sent": {nil, addrs[:1], speaksAt(), false, "no request was seen again"},
		"what was sent was not repeated": {slices.Concat(sent(us, toGuest, 7, 0, 67),
			sent(us, toGuest, 8, 469)), addrs[:1], speaksAt(), false, "no request was seen again"},
		"goroce does not answer": {theirs, addrs[1:], speaksAt(), false,
			"the guest got no answer while PSN 0x9"},
		"goroce answers, the guest is deaf": {slices.Concat(theirs, said(us, toGuest, 9, 1001, true)),
			addrs[1:], speaksAt(), true, "did not look"},
		"goroce answers for later ones, too": {slices.Concat(theirs, said(us, toGuest, 12, 1001, true)),
			addrs[1:], speaksAt(), true, "did not look"},
		"goroce answers only at the end": {slices.Concat(theirs, said(us, toGuest, 9, 4001, true)),
			addrs[1:], speaksAt(), false, "got no answer"},
		"goroce answers what was before": {slices.Concat(theirs, said(us, toGuest, 8, 1001, true)),
			addrs[1:], speaksAt(), false, "got no answer"},
		"goroce refuses": {slices.Concat(theirs, said(us, toGuest, 9, 1001, false)),
			addrs[1:], speaksAt(), false, "got no answer"},
		"the guest gives up after it stood still": {slices.Concat(ours, theirs), addrs, speaksAt(), true,
			"stood still while PSN 0x7"},
		"goroce gives up after it did not answer": {slices.Concat(theirs, sent(us, toGuest, 7, 4500, 4600, 4700)),
			addrs, speaksAt(), false, "the guest got no answer while PSN 0x9"},
		"the oldest of those repeated counts": {slices.Concat(sent(us, toGuest, 0xffffff, 0, 67, 134),
			sent(us, toGuest, 0, 1, 68, 135)), addrs[:1], speaksAt(), true, "PSN 0xffffff"},
		"what was repeated before, with success, no": {slices.Concat(sent(us, toGuest, 1, 0, 1, 2, 3), ours[1:]),
			addrs[:1], speaksAt(10), true, "PSN 0x7"},
	} {
		t.Run(name, func(t *testing.T) {
			what, starved := starvation(reported(c.all), c.gaveUp, guest, c.port)
			require.Equal(t, c.want, starved, what)
			require.Contains(t, what, c.what)
		})
	}
}

// What a rule kept or damaged has not reached anybody.
func TestDelivered(t *testing.T) {
	frame := func(op uint8, psn uint32) *ether.Packet {
		b := slices.Concat(make([]byte, 12), []byte{8, 0},
			switchlink.SentHeaders(addrs[0], addrs[1], 50000, 0, make([]byte, 12+16+4)))
		b = append(b, op, 0, 0xff, 0xff, 0, 0, 0, toGuest, 0, byte(psn>>16), byte(psn>>8), byte(psn))
		p, ok := ether.Decode(append(b, make([]byte, 16+4)...))
		require.True(t, ok)
		p.Seal()
		return p
	}
	bad := frame(ether.OpWriteOnly, 5)
	bad.Body()[0] ^= 1
	good := frame(ether.OpWriteOnly, 5)
	r := delivered([]ether.Event{
		{At: 1, Pkt: good},
		{At: 2, Pkt: good, Fate: "drop"},
		{At: 3, Pkt: bad, Fate: "corrupt"},
		{At: 5, Pkt: good},
		{At: 9, Pkt: good, Fate: "release"},
		{At: 10, Pkt: frame(ether.OpUDSendOnly, 5)},
	})
	x := r.Exhausted(addrs[0])
	require.NotNil(t, x)
	require.Equal(t, &analyse.Exhausted{Requester: addrs[0], Responder: addrs[1], QPN: toGuest, PSN: 5,
		Times: 3, FirstNs: 1, RetryNs: 5, LastNs: 9}, x)
}

func TestRecorder(t *testing.T) {
	now := time.Duration(0)
	r := &recorder{now: func() time.Duration { now++; return now }, between: [2]netip.Addr(addrs),
		seen: newWired(rememberedPackets)}
	const n = 5
	const payload = 7
	frame := make([]byte, 12+payload+4) // BTH and ICRC
	for range n {
		r.packet(&ether.Packet{Frame: frame, Src: addrs[1], Dst: addrs[0], Opcode: ether.OpWriteOnly})
	}
	r.packet(&ether.Packet{
		Frame: frame, Src: addrs[1], Dst: netip.MustParseAddr("10.77.0.101"), Opcode: ether.OpWriteOnly,
	})
	require.Equal(t, n*payload, r.moved())
	r.packet(&ether.Packet{
		Frame: frame, Src: addrs[0], Dst: netip.MustParseAddr("239.77.1.7"), Opcode: ether.OpUDSendOnly,
	})
	require.Equal(t, (n+1)*payload, r.moved(), "to a group")
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
