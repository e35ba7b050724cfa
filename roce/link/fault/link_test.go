package fault_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// below is a link that keeps what is sent, and hands up what a test says.
type below struct {
	link.Link
	sent []string
	come [][]byte
	err  error
	seen bool // CaughtUp
}

func (l *below) Send(batch []edge.TxPacket) {
	for i := range batch {
		b := batch[i].AppendTo(nil)
		l.sent = append(l.sent, text(b, batch[i].ICRCXor != 0))
	}
}

func (l *below) Recv(batch []edge.RxPacket) (n int, err error) {
	for n < len(batch) && len(l.come) > 0 {
		batch[n] = edge.RxPacket{Data: l.come[0]}
		l.come = l.come[1:]
		n++
	}
	return n, l.err
}

func (l *below) CaughtUp() bool { return l.seen }

// text is the PSN of a packet, with a ! if its ICRC is wrong, and the last letter of its payload.
func text(b []byte, wrong bool) string {
	s := string('0' + rune(b[11]))
	if wrong {
		s += "!"
	}
	if len(b) > ib.BTHBytes {
		s += string(rune(b[len(b)-1]))
	}
	return s
}

// header is that of packet i: to queue pair 0x10046, the last two to 0x20046.
func header(i int) ib.Packet {
	h := ib.Packet{BTH: ib.BTH{Opcode: ib.RCWriteMiddle, PSN: ib.PSN(i), DestQP: 0x10046}}
	if i >= 8 {
		h.DestQP = 0x20046
	}
	return h
}

var rules = map[string]struct {
	rule fault.Rule
	// sent and received are what is left of packets 0 to 9.
	sent, received string
	hits           int
}{
	"drop":              {fault.Rule{PSN: 3, HasPSN: true}, "012456789", "", 1},
	"all":               {fault.Rule{}, "", "", 10},
	"duplicate":         {fault.Rule{PSN: 3, HasPSN: true, Action: fault.Duplicate}, "01233456789", "", 1},
	"delay":             {fault.Rule{PSN: 3, HasPSN: true, Action: fault.Delay}, "0124356789", "", 1},
	"delay by 3":        {fault.Rule{PSN: 3, HasPSN: true, Action: fault.Delay, Hold: 3}, "0124563789", "", 1},
	"delay two":         {fault.Rule{Every: 3, Times: 2, Action: fault.Delay, Hold: 3}, "0134627859", "", 2},
	"delay to the end":  {fault.Rule{PSN: 8, HasPSN: true, Action: fault.Delay, Hold: 2}, "012345679", "", 1},
	"corrupt":           {fault.Rule{PSN: 3, HasPSN: true, Action: fault.Corrupt}, "0123!456789", "012456789", 1},
	"by queue pair":     {fault.Rule{QP: 0x20046}, "01234567", "", 2},
	"by opcode":         {fault.Rule{Opcode: ib.RCWriteMiddle, HasOpcode: true}, "", "", 10},
	"by another opcode": {fault.Rule{Opcode: ib.RCWriteLast, HasOpcode: true}, "0123456789", "", 0},
	"every third":       {fault.Rule{Every: 3}, "0134679", "", 3},
	"twice":             {fault.Rule{Times: 2}, "23456789", "", 2},
	"the second":        {fault.Rule{Iteration: 2}, "0123456789", "", 0},
	"the first":         {fault.Rule{Iteration: 1, Every: 5}, "01235678", "", 2},
	"at random":         {fault.Rule{Probability: 0.5, Seed: 1}, "1235678", "", 3},
	"certainly":         {fault.Rule{Probability: 1}, "", "", 10},
}

// What is left of ten packets, sent and received, whatever the batches are.
func TestRules(t *testing.T) {
	join := func(all []string) (s string) {
		for _, x := range all {
			s += x
		}
		return s
	}
	for name, c := range rules {
		for _, size := range []int{1, 3, 10} {
			l := &below{}
			f := fault.New(l, c.rule)
			for i := 0; i < 10; i += size {
				var batch []edge.TxPacket
				for k := i; k < min(i+size, 10); k++ {
					h := header(k)
					tx := edge.TxPacket{SrcQP: h.DestQP}
					tx.HeaderLen = uint8(h.PutHeaders(tx.Header[:]))
					batch = append(batch, tx)
				}
				f.Send(batch)
			}
			require.Equal(t, c.sent, join(l.sent), "%s, %d at a time", name, size)
			require.Equal(t, c.hits, f.Hits(0), name)

			l = &below{}
			received := c.rule
			received.Dir = fault.Receive
			f = fault.New(l, received)
			for i := range 10 {
				h := header(i)
				b := make([]byte, ib.BTHBytes)
				h.PutHeaders(b)
				l.come = append(l.come, b)
			}
			want := c.received
			if want == "" {
				want = c.sent
			}
			var got []string
			batch := make([]edge.RxPacket, size)
			for {
				n, err := f.Recv(batch)
				require.NoError(t, err)
				if n == 0 {
					break
				}
				for _, p := range batch[:n] {
					got = append(got, text(p.Data, false))
				}
			}
			require.Equal(t, want, join(got), "%s, %d at a time, received", name, size)
			require.Equal(t, c.hits, f.Hits(0), name)
		}
	}
}

// A packet that is held keeps its bytes, though their owner has others there by then.
func TestHeld(t *testing.T) {
	l := &below{}
	f := fault.New(l, fault.Rule{Times: 1, Action: fault.Delay},
		fault.Rule{Dir: fault.Receive, Times: 1, Action: fault.Delay})
	payload := []byte("xa")
	send := func(psn int, last byte) {
		h := header(psn)
		payload[1] = last
		tx := edge.TxPacket{PayloadLen: 2, NumFrags: 2}
		tx.Frags[0], tx.Frags[1] = payload[:1], payload[1:]
		tx.HeaderLen = uint8(h.PutHeaders(tx.Header[:]))
		f.Send([]edge.TxPacket{tx})
	}
	send(1, 'a')
	send(2, 'b')
	require.Equal(t, []string{"2b", "1a"}, l.sent)

	h := header(1)
	b := make([]byte, ib.BTHBytes+1)
	h.PutHeaders(b)
	b[ib.BTHBytes] = 'a'
	batch := make([]edge.RxPacket, 4)
	l.come = [][]byte{b}
	n, err := f.Recv(batch)
	require.Equal(t, 0, n)
	require.NoError(t, err)
	h = header(2)
	h.PutHeaders(b)
	b[ib.BTHBytes] = 'b'
	l.come = [][]byte{b}
	n, err = f.Recv(batch)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, []string{"2b", "1a"}, []string{text(batch[0].Data, false), text(batch[1].Data, false)})
}

// A packet that is dropped does not pass: it does not count for those that are held.
func TestDroppedPassesNothing(t *testing.T) {
	l := &below{}
	f := fault.New(l, fault.Rule{Times: 1, Action: fault.Delay}, fault.Rule{PSN: 2, HasPSN: true})
	for i := 1; i < 4; i++ {
		h := header(i)
		tx := edge.TxPacket{}
		tx.HeaderLen = uint8(h.PutHeaders(tx.Header[:]))
		f.Send([]edge.TxPacket{tx})
	}
	require.Equal(t, []string{"3", "1"}, l.sent)
}

// A packet is sent in as many batches as it may be; the first of several rules acts, and each
// counts for itself.
func TestIterations(t *testing.T) {
	l := &below{}
	f := fault.New(l, fault.Rule{Iteration: 2}, fault.Rule{Every: 2, Action: fault.Corrupt})
	require.Equal(t, 2, f.Add(fault.Rule{QP: 9}))
	h := header(4)
	tx := edge.TxPacket{}
	tx.HeaderLen = uint8(h.PutHeaders(tx.Header[:]))
	for range 4 {
		f.Send([]edge.TxPacket{tx})
	}
	require.Equal(t, []string{"4", "4", "4!"}, l.sent)
	require.Equal(t, [3]int{1, 2, 0}, [3]int{f.Hits(0), f.Hits(1), f.Hits(2)})
}

// Congestion is marked in a copy of what is known of a packet, and a change is one of a copy of its
// bytes. What is no packet passes.
func TestChanges(t *testing.T) {
	l := &below{}
	f := fault.New(l, fault.Rule{Dir: fault.Receive, PSN: 1, HasPSN: true, Action: fault.MarkCE},
		fault.Rule{Dir: fault.Receive, PSN: 2, HasPSN: true, Action: fault.Mutate},
		fault.Rule{Dir: fault.Receive, Action: fault.Mutate, Mutate: func(p *ib.Packet, body []byte) {
			p.PSN += 2
			body[len(body)-1] = 'm'
			if p.PSN == 6 {
				p.Opcode = ib.RCReadRequest // of another length: the change is not made
			}
		}})
	packet := func(psn, payload int) []byte {
		h := header(psn)
		b := make([]byte, ib.BTHBytes+payload+ib.ICRCBytes)
		h.PutHeaders(b)
		return b
	}
	sent := [][]byte{packet(1, 4), packet(2, 4), packet(3, 4), packet(4, 4), make([]byte, ib.BTHBytes),
		make([]byte, 5), nil}
	for _, b := range sent {
		l.come = append(l.come, slices.Clone(b))
	}
	come := l.come
	batch := make([]edge.RxPacket, 10)
	n, err := f.Recv(batch)
	require.NoError(t, err)
	require.Equal(t, len(sent), n)
	for i, want := range [][2]byte{{1, 0}, {2, 0}, {5, 'm'}, {4, 'm'}} {
		b := batch[i].Data
		require.Equal(t, want, [2]byte{b[11], b[len(b)-1-ib.ICRCBytes]}, "packet %d", i)
		require.Equal(t, i == 0, batch[i].TrafficClass == edge.ECNCE)
	}
	for i, b := range come {
		require.Equal(t, sent[i], b)
		if i >= 4 {
			require.Equal(t, sent[i], batch[i].Data)
		}
	}

	// Sent, neither does anything; a header that is cut off is none.
	f = fault.New(l, fault.Rule{HasPSN: true, PSN: 9, Action: fault.Drop}, fault.Rule{Action: fault.MarkCE})
	f.Send([]edge.TxPacket{{HeaderLen: ib.BTHBytes}, {HeaderLen: 0, NumFrags: 1, PayloadLen: 12,
		Frags: [edge.MaxTxFrags][]byte{make([]byte, 12)}}})
	require.Len(t, l.sent, 2)
	require.Equal(t, 2, f.Hits(1))
}

// A PSN is all of its 24 bits.
func TestPSN(t *testing.T) {
	l := &below{}
	rule := fault.Rule{PSN: 0x010203, HasPSN: true}
	received := rule
	received.Dir = fault.Receive
	f := fault.New(l, rule, received)
	for _, psn := range []ib.PSN{0x010203, 0x020203, 0x010303, 0x010204} {
		h := header(0)
		h.PSN = psn
		tx := edge.TxPacket{}
		tx.HeaderLen = uint8(h.PutHeaders(tx.Header[:]))
		f.Send([]edge.TxPacket{tx})
		l.come = append(l.come, tx.AppendTo(nil))
	}
	n, err := f.Recv(make([]edge.RxPacket, 9))
	require.NoError(t, err)
	require.Equal(t, [4]int{3, 3, 1, 1}, [4]int{n, len(l.sent), f.Hits(0), f.Hits(1)})
}

// What the link below says is said: an error, and that it has caught up, once all is handed up.
func TestBelow(t *testing.T) {
	l := &below{seen: true}
	f := fault.New(l, fault.Rule{Dir: fault.Receive, Action: fault.Duplicate})
	require.Same(t, l, f.Unwrap())
	h := header(1)
	b := make([]byte, ib.BTHBytes)
	h.PutHeaders(b)
	l.come = [][]byte{b}
	batch := make([]edge.RxPacket, 1)
	for i := range 2 {
		n, err := f.Recv(batch)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, i == 1, f.CaughtUp())
	}
	l.seen = false
	require.False(t, f.CaughtUp())
	l.come, l.err = [][]byte{b}, errors.New("broken")
	n, err := f.Recv(batch)
	require.Zero(t, n)
	require.ErrorIs(t, err, l.err)
}
