package transmit

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/nexthop"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

var flow = ib.Flow{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"),
	SrcPort: 0xC001, DstPort: ib.UDPPort}

// kernel is sockets that take what a test says.
type kernel struct {
	Sender
	path edge.Path
	// answers are the next errors; with none it takes all.
	answers []unix.Errno
	calls   []int // datagrams of each
	lost    []unix.Errno
	segment int // of the last datagram that was filled in
	most    int // datagrams that a call takes; 0 is all
}

func (k *kernel) Fill(_ *unix.Msghdr, _, _ []byte, _, segment int) { k.segment = segment }

func newKernel() *kernel {
	k := &kernel{}
	r := k.Add(&Route{ICRC: ICRC{ICRC: ib.NewICRC(flow)}, FD: 5, Limit: 60000, Own: k})
	k.Init(Sends{
		Route: func(*edge.Path) *Route { return r },
		Lost:  func(of []*edge.Path, errno unix.Errno) { k.lost = append(k.lost, errno) },
		Lanes: 1,
	})
	k.GSO.Store(true)
	k.Sendmmsg = func(_ int, msgs []sockio.Mmsghdr) (int, unix.Errno) {
		k.calls = append(k.calls, len(msgs))
		if len(k.answers) > 0 {
			errno := k.answers[0]
			if k.answers = k.answers[1:]; errno != 0 {
				return 0, errno
			}
		}
		if k.most != 0 {
			return min(k.most, len(msgs)), 0
		}
		return len(msgs), 0
	}
	return k
}

func (k *kernel) packets(n, payload int) []edge.TxPacket {
	batch := make([]edge.TxPacket, n)
	for i := range batch {
		batch[i] = packetOf(&k.path, payload)
	}
	return batch
}

func packetOf(p *edge.Path, payload int) edge.TxPacket {
	tx := edge.TxPacket{Path: p, PayloadLen: uint16(payload)}
	h := ib.Packet{BTH: ib.BTH{Opcode: ib.RCWriteMiddle}}
	tx.HeaderLen = uint8(h.PutHeaders(tx.Header[:]))
	tx.Frags[0], tx.NumFrags = make([]byte, payload), 1
	return tx
}

// What the kernel answers, and what becomes of five packets of one datagram: which calls there are,
// what is lost, what waits, and what the counters say.
func TestAnswers(t *testing.T) {
	const n, payload, size = 5, 1024, ib.BTHBytes + 1024 + ib.ICRCBytes
	const again, refused, gone, interrupted = unix.EAGAIN, unix.EIO, unix.ENOBUFS, unix.EINTR
	five := func(calls, datagrams int) link.Stats {
		return link.Stats{TxPackets: n, TxBytes: n * size, TxDatagrams: uint64(datagrams), TxCalls: uint64(calls)}
	}
	with := func(s link.Stats, f func(*link.Stats)) link.Stats { f(&s); return s }
	for name, c := range map[string]struct {
		answers []unix.Errno
		lost    []unix.Errno
		waiting int
		gso     bool
		stats   link.Stats
	}{
		"it is taken": {gso: true, stats: five(1, 1)},
		"interrupted": {answers: []unix.Errno{interrupted, interrupted}, gso: true, stats: five(3, 1)},
		"no room": {answers: []unix.Errno{again}, waiting: n * size, gso: true,
			stats: link.Stats{TxCalls: 1, TxBlocked: 1}},
		"no memory": {answers: []unix.Errno{gone}, lost: []unix.Errno{gone}, gso: true,
			stats: link.Stats{TxCalls: 1}},
		"not in one": {answers: []unix.Errno{refused, refused},
			stats: with(five(7, 5), func(s *link.Stats) { s.GSOFallbacks = 1 })},
		"nor singly": {answers: []unix.Errno{refused, refused, gone, gone, gone, gone, gone},
			lost: []unix.Errno{gone, gone, gone, gone, gone}, gso: true, stats: link.Stats{TxCalls: 7}},
		"singly, a full": {answers: []unix.Errno{refused, refused, 0, interrupted, 0, again}, waiting: n * size,
			gso: true, stats: link.Stats{TxPackets: 2, TxBytes: 2 * size, TxDatagrams: 2, TxCalls: 6, TxBlocked: 1}},
		"one is too long": {answers: []unix.Errno{refused, refused, unix.EMSGSIZE}, lost: []unix.Errno{unix.EMSGSIZE},
			gso: true, stats: link.Stats{TxPackets: 4, TxBytes: 4 * size, TxDatagrams: 4, TxCalls: 7}},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel()
			k.answers = c.answers
			k.Send(k.packets(n, payload))
			require.Equal(t, c.lost, k.lost)
			require.Equal(t, c.waiting, k.Waiting())
			require.Equal(t, c.waiting > 0, k.Blocked())
			require.Equal(t, c.gso, k.GSO.Load())
			var s link.Stats
			k.Stats.Read(&s)
			require.Equal(t, c.stats, s)
			require.Equal(t, s.TxDatagrams, k.Stats.Work())
			if k.Blocked() {
				require.EqualValues(t, 5, k.Full.Load())
				k.Retry()
				require.False(t, k.Blocked())
				require.Zero(t, k.Waiting())
				k.Stats.Read(&s)
				require.EqualValues(t, n, s.TxPackets)
				require.EqualValues(t, n*size, s.TxBytes)
			}
		})
	}
}

// Where segmentation is refused, packets go singly from then on, unless there were more than older
// kernels take.
func TestRefused(t *testing.T) {
	for _, n := range []int{2, sockio.MaxSegmentsOld, sockio.MaxSegmentsOld + 1} {
		k := newKernel()
		k.MaxSegs = 100
		k.answers = []unix.Errno{unix.EINVAL, unix.EINVAL}
		k.Send(k.packets(n, 64))
		require.Len(t, k.calls, 2+n)
		require.EqualValues(t, n, k.Stats.Packets.Load())
		require.Equal(t, n > sockio.MaxSegmentsOld, k.GSO.Load())
		require.Equal(t, n > sockio.MaxSegmentsOld, k.MaxSegs == sockio.MaxSegmentsOld)
	}
}

// A call may take some of its datagrams.
func TestTakesSome(t *testing.T) {
	k := newKernel()
	k.GSO.Store(false)
	k.most = 2
	k.Send(k.packets(5, 64))
	require.Equal(t, []int{5, 3, 1}, k.calls)
	require.EqualValues(t, 5, k.Stats.Packets.Load())
}

// A packet that is complete goes behind what waits, and waits where there is no room.
func TestSendPacket(t *testing.T) {
	k := newKernel()
	r := k.RouteOf(&k.path)
	data := make([]byte, 100)
	k.SendPacket(r, &k.path, data)
	require.False(t, k.Blocked())
	require.EqualValues(t, 1, k.Stats.Packets.Load())
	k.answers = []unix.Errno{unix.EAGAIN}
	k.SendPacket(r, &k.path, data)
	require.True(t, k.Blocked())
	k.SendPacket(r, &k.path, data)
	require.Equal(t, 200, k.Waiting())
	require.Len(t, k.calls, 2)
	k.answers = []unix.Errno{unix.ENOBUFS}
	k.Retry()
	require.Equal(t, []unix.Errno{unix.ENOBUFS}, k.lost)
	require.EqualValues(t, 2, k.Stats.Packets.Load())
	k.answers = []unix.Errno{unix.EPERM}
	k.SendPacket(r, &k.path, data)
	require.Equal(t, []unix.Errno{unix.ENOBUFS, unix.EPERM}, k.lost)
	require.EqualValues(t, 4, k.Stats.Work()+2)
}

// What was given up is work, too.
func TestWork(t *testing.T) {
	var c Counters
	c.Sent(2, 7, 100)
	require.EqualValues(t, 2, c.Work())
	var p edge.Path
	c.Lost(&p, 3)
	c.TooLong(&p, 4)
	require.EqualValues(t, 9, c.Work())
	require.Equal(t, [2]uint64{3, 4}, [2]uint64{p.Unreachable, p.TooLong})
	var s link.Stats
	c.Read(&s)
	require.Equal(t, link.Stats{TxDatagrams: 2, TxPackets: 7, TxBytes: 100, TxDropped: 7, TxUnreachable: 3}, s)
}

// towards is a path whose neighbour is as a test says.
type towards struct {
	Path
	of     edge.Path
	status nexthop.Status
}

func (p *towards) Refresh() nexthop.Status { return p.status }

func newTowards(s nexthop.Status) *towards {
	return &towards{Path: Path{ICRC: ICRC{ICRC: ib.NewICRC(flow)}, Most: 2000, hop: &nexthop.Hop{}}, status: s}
}

// Packets wait until their neighbour is known, in order and as many as may, those of each path for
// themselves; then they go, or are counted.
func TestUnresolved(t *testing.T) {
	var sent []byte
	var stats Counters
	var q UnresolvedQueue[*towards]
	q.Init(&stats, func(_ *towards, of *edge.Path, data []byte) { sent = append(sent, data[ib.BTHBytes]) })
	admit := func(p *towards, mark byte, payload int) bool {
		tx := packetOf(&p.of, payload)
		tx.Frags[0][0] = mark
		return q.Admit(p, &tx, tx.UDPPayloadLen())
	}
	require.False(t, q.Changed(), "nothing waits")
	a, b, c := newTowards(nexthop.Pending), newTowards(nexthop.Pending), newTowards(nexthop.Failed)
	for i := range byte(3) {
		require.False(t, admit(a, 10+i, 100))
		require.False(t, admit(b, 20+i, 100))
		require.False(t, admit(c, 30+i, 100))
	}
	require.EqualValues(t, 3, c.of.Unreachable)
	require.EqualValues(t, 3, stats.Unreachable.Load())
	require.False(t, q.Due())
	require.True(t, q.Changed())
	require.True(t, q.Due())
	q.Retry()
	require.False(t, q.Due())
	require.Empty(t, sent)
	b.status = nexthop.Ready
	q.Retry()
	require.Equal(t, []byte{20, 21, 22}, sent)
	require.True(t, q.Changed(), "others wait")
	require.Zero(t, b.unresolved)
	require.True(t, admit(b, 23, 100))
	require.False(t, admit(b, 24, 3000), "too long")
	require.EqualValues(t, 1, b.of.TooLong)
	a.status = nexthop.Ready
	require.True(t, admit(a, 13, 100), "behind those that wait")
	require.Equal(t, []byte{20, 21, 22, 10, 11, 12}, sent)
	require.False(t, q.Changed())

	// A path has so much room, and has it again; one that fails gives up what waits.
	for round := range uint64(3) {
		a.status = nexthop.Pending
		for range 70 {
			require.False(t, admit(a, 1, 1000))
		}
		fit := uint64(unresolvedPerPath / (1000 + ib.BTHBytes + ib.ICRCBytes))
		require.EqualValues(t, 70*round+70-fit, a.of.Unreachable)
		a.status = nexthop.Failed
		q.Retry()
		require.EqualValues(t, 70*(round+1), a.of.Unreachable)
		require.Zero(t, a.unresolved)
	}
	require.Len(t, sent, 6)
	// The answer may be there before anybody waits for it.
	a.status, a.state = nexthop.Pending, &nexthop.State{}
	require.False(t, admit(a, 1, 1000))
	require.True(t, q.Due())
}
