package drill

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
)

// published is a peer in virtual time that does what has been published of a ConnectX: this
// module's engine without its own probes, and, if adaptive, with requests sent again after 2, 4, 8
// and 16 ms besides (perftest issue 251).
type published struct {
	adaptive bool
	noPSN    bool // a fault that nothing published excuses: CNPs have a PSN
}

func (published) Name() string       { return "published" }
func (published) Profile() Profile   { return CX }
func (published) Close() error       { return nil }
func (published) Has(f Feature) bool { return f != quirkRxeFlush }

func (t published) Open(context.Context) (Bench, error) {
	wire := newVirtualLink(enginePeer[peer.V4], enginePeer[peer.V6])
	dev, err := verbs.Open(verbs.Config{
		Link: wire, Rand: rand.NewChaCha8([32]byte{'c', 'x'}), Tuning: transport.Tuning{LossProbe: -1},
	})
	if err != nil {
		return nil, err
	}
	p := peer.GoroceOn(dev, peer.GorocePlace{Addr4: enginePeer[peer.V4], Addr6: enginePeer[peer.V6], Link: "engine"})
	return &publishedBench{
		engineBench: &engineBench{p: p, wire: wire, cm: &listener{dev: dev, at: enginePeer[peer.V4]}}, t: t,
	}, nil
}

type publishedBench struct {
	*engineBench
	t      published
	copies []Datagram // of the only request so far, in the order of their times
	seen   bool
}

func (b *publishedBench) Recv(within time.Duration) (Datagram, bool, error) {
	until := within
	if len(b.copies) > 0 {
		until = min(until, max(b.copies[0].At-b.Now(), 0))
	}
	d, ok, err := b.engineBench.Recv(until)
	switch {
	case err != nil:
		return d, ok, err
	case !ok && len(b.copies) > 0 && b.copies[0].At <= b.Now():
		d, b.copies = b.copies[0], b.copies[1:]
		return d, true, nil
	case ok && b.t.adaptive && !b.seen && ib.Opcode(d.Payload[0]) == ib.RCWriteOnly:
		b.seen = true
		at := d.At
		for _, after := range []time.Duration{2, 4, 8, 16} {
			at += after * time.Millisecond
			again := d
			again.At, again.Payload = at, slices.Clone(d.Payload)
			b.copies = append(b.copies, again)
		}
	case ok && b.t.noPSN && ib.Opcode(d.Payload[0]) == ib.CNP:
		d.Payload[11] = 7
		c := ib.NewICRC(ib.Flow{Src: d.Src, Dst: d.Dst, SrcPort: d.SrcPort, DstPort: ib.UDPPort})
		n := len(d.Payload) - ib.ICRCBytes
		ib.PutICRC(d.Payload[n:], c.Checksum(0, d.Payload[:n]))
	}
	return d, ok, err
}

// A peer that behaves as published passes with the profile connectx, and where the specification
// has it otherwise, that is named, with its source. With the profile spec it fails there.
func TestConnectX(t *testing.T) {
	differs := map[string]string{"req_timeout": "perftest #251",
		"req_retry_count": "Adaptive Retransmission: Parameters Control"}
	for _, d := range List() {
		source, ok := differs[d.Name]
		require.Equal(t, ok, len(d.Deviates(CX)) > 0,
			"%s: the differences that are published are those of this test", d.Name)
		if !ok {
			continue
		}
		r := Run(t.Context(), d, published{adaptive: true}, Options{})
		require.Equal(t, Deviates, r.Verdict, "%v\n%s", r, r.Ladder)
		require.Contains(t, r.Text, source)
		require.NotEmpty(t, r.Ladder)
		require.Equal(t, Fail, Run(t.Context(), d, published{adaptive: true}, Options{Profile: Spec}).Verdict, d.Name)
		// With adaptive retransmission off a card keeps to the specification.
		r = Run(t.Context(), d, published{}, Options{})
		require.Equal(t, Pass, r.Verdict, "%v\n%s", r, r.Ladder)
	}
	// What was seen of cards and is as the specification has it: MigReq 1, and the fields of a CNP.
	for _, name := range []string{"ack_migreq", "req_migreq", "cnp_for_ce", "req_ack_coalesced"} {
		r := Run(t.Context(), byName(name), published{adaptive: true}, Options{})
		require.Equal(t, Pass, r.Verdict, "%v\n%s", r, r.Ladder)
	}
	// A difference that nobody has published fails with connectx, too.
	r := Run(t.Context(), byName("cnp_for_ce"), published{noPSN: true}, Options{})
	require.Equal(t, Fail, r.Verdict, "%v", r)
	require.Contains(t, r.Text, "psn")
}
