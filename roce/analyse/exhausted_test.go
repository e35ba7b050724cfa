package analyse_test

import (
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/pcap"
	"github.com/stretchr/testify/require"
)

// at adds a packet at a time in ms.
func (s *script) when(ms int64, from int, op ib.Opcode, psn ib.PSN) *script {
	s.add(from, ms*1000-s.at/1000, op, psn)
	return s
}

// refused makes the last packet a NAK.
func refused(s *script) *script {
	s.all[len(s.all)-1].AETH.Syndrome = ib.NAKRemoteAccess
	return s
}

// Of the requests that were sent again and again at the end it is the oldest one, and what else was
// seen meanwhile.
func TestExhausted(t *testing.T) {
	const write, ack = ib.RCWriteOnly, ib.RCAcknowledge
	a, b := judged.Ends[0].Addr, judged.Ends[1].Addr
	base := func(s *script) *script { return s.when(0, 0, write, 7).when(67, 0, write, 7).when(134, 0, write, 7) }
	want := func(f func(x *analyse.Exhausted)) *analyse.Exhausted {
		x := &analyse.Exhausted{Requester: a, Responder: b, QPN: 0x22, PSN: 7, Times: 3, RetryNs: 67e6, LastNs: 134e6}
		if f != nil {
			f(x)
		}
		return x
	}
	for name, c := range map[string]struct {
		s    *script
		want *analyse.Exhausted
	}{
		"three times": {base(&script{}), want(nil)},
		"twice":       {(&script{}).when(0, 0, write, 7).when(67, 0, write, 7), nil},
		"the oldest one, across the wrap": {
			(&script{}).when(0, 0, write, 0xffffff).when(1, 0, write, 7).when(67, 0, write, 0xffffff).
				when(68, 0, write, 7).when(134, 0, write, 0xffffff).when(135, 0, write, 7),
			want(func(x *analyse.Exhausted) { x.PSN = 0xffffff }),
		},
		"probes are no retries": {
			(&script{}).when(0, 0, write, 7).when(1, 0, write, 7).when(3, 0, write, 7).when(67, 0, write, 7).
				when(134, 0, write, 7).when(201, 0, write, 7),
			want(func(x *analyse.Exhausted) { x.Times, x.LastNs = 6, 201e6 }),
		},
		"the machine stands still after the first retry": {
			(&script{}).when(0, 0, write, 7).when(67, 0, write, 7).when(500, 0, write, 7),
			want(func(x *analyse.Exhausted) { x.LastNs = 500e6 }),
		},
		"one probe, two retries": {
			(&script{}).when(0, 0, write, 7).when(1, 0, write, 7).when(67, 0, write, 7).when(134, 0, write, 7),
			want(func(x *analyse.Exhausted) { x.Times = 4 }),
		},
		"a long wait is one": {
			(&script{}).when(0, 0, write, 7).when(67, 0, write, 7).when(134, 0, write, 7).when(500, 0, write, 7),
			want(func(x *analyse.Exhausted) { x.Times, x.LastNs = 4, 500e6 }),
		},
		"answered": {
			(&script{}).when(0, 0, write, 7).when(10, 1, ack, 9).when(67, 0, write, 7).when(134, 0, write, 7),
			want(func(x *analyse.Exhausted) { x.Answered = true }),
		},
		"only what was before is answered": {
			(&script{}).when(0, 0, write, 7).when(10, 1, ack, 6).when(67, 0, write, 7).
				when(134, 0, write, 7), want(nil),
		},
		"answered too late": {
			base(&script{}).when(205, 1, ack, 6).when(210, 1, ack, 9).when(220, 1, ack, 9),
			want(func(x *analyse.Exhausted) { x.LateNs = 210e6 }),
		},
		"answered when the requester might still wait": {base(&script{}).when(200, 1, ack, 9).when(210, 1, ack, 9),
			want(nil)},
		"refused too late":           {refused(base(&script{}).when(210, 1, ack, 9)), want(nil)},
		"something else is answered": {base(&script{}).when(210, 1, ack, 7+512), want(nil)},
		"the responder does not look": {
			(&script{}).when(0, 0, write, 7).when(60, 1, write, 9).when(61, 0, ack, 9).when(67, 0, write, 7).
				when(70, 1, write, 9).when(134, 0, write, 7),
			want(func(x *analyse.Exhausted) { x.Deaf = true }),
		},
		"it has no answer": {
			(&script{}).when(0, 0, write, 7).when(60, 1, write, 9).when(61, 0, ack, 8).when(67, 0, write, 7).
				when(70, 1, write, 9).when(134, 0, write, 7), want(nil),
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, analyseAll(c.s.all, analyse.Options{Recall: 100}).Exhausted(a))
		})
	}
	// Who gives up first counts, of those who say so.
	s := base(&script{}).when(200, 1, write, 3).when(300, 1, write, 3).when(400, 1, write, 3)
	r := analyseAll(s.all, analyse.Options{Recall: 100})
	require.Equal(t, a, r.Exhausted(b, a).Requester)
	require.Equal(t, b, r.Exhausted(b).Requester)
	require.Nil(t, r.Exhausted())

	// What is damaged reaches nobody, and what is not asked for is not remembered.
	s = base(&script{})
	s.all[1].ICRC = pcap.ICRCWrong
	require.Nil(t, analyseAll(s.all, analyse.Options{Recall: 100}).Exhausted(a))
	require.Nil(t, analyseAll(base(&script{}).all, analyse.Options{}).Exhausted(a))
}

// Only the last packets are remembered: so many at least, and no more than twice as many.
func TestRecall(t *testing.T) {
	for _, n := range []int{0, 16, 33, 50} {
		s := &script{}
		for range 3 {
			s.writes(7)
		}
		for i := range n {
			s.writes(ib.PSN(100 + i))
		}
		x := analyseAll(s.all, analyse.Options{Recall: 16}).Exhausted(judged.Ends[0].Addr)
		require.Equal(t, n <= 13+16, x != nil, n)
	}
}
