package switchlink

import (
	"bytes"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// memoryLink is a link that remembers what it was given to send, and has received what a test says.
type memoryLink struct {
	link.Link
	mu     sync.Mutex
	sent   []transport.TxPacket
	news   chan struct{}
	rx     []transport.RxPacket
	woken  int
	closed bool
}

func newMemoryLink() *memoryLink { return &memoryLink{news: make(chan struct{}, 1000)} }

func (l *memoryLink) Capabilities() link.Capabilities     { return link.Capabilities{Name: "memory"} }
func (l *memoryLink) Stats() link.Stats                   { return link.Stats{RxICRC: 3} }
func (l *memoryLink) Wait(time.Duration) error            { return nil }
func (l *memoryLink) CaughtUp() bool                      { return len(l.rx) == 0 }
func (l *memoryLink) SourcePort(p *transport.Path) uint16 { return ib.UDPPort }

func (l *memoryLink) Send(batch []transport.TxPacket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range batch {
		p.Frags[0] = bytes.Clone(p.Frags[0])
		path := *p.Path
		p.Path = &path
		l.sent = append(l.sent, p)
		l.news <- struct{}{}
	}
}

func (l *memoryLink) Recv(batch []transport.RxPacket) (int, error) {
	n := copy(batch, l.rx)
	l.rx = l.rx[n:]
	return n, nil
}

func (l *memoryLink) Wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.woken++
}

func (l *memoryLink) Close() error { l.closed = true; return nil }

// take waits for n packets sent.
func (l *memoryLink) take(n int) []transport.TxPacket {
	for range n {
		<-l.news
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.sent
	l.sent = nil
	return out
}

// ends are addresses of both families.
var ends = map[string][2]netip.Addr{
	"ipv4": {netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")},
	"ipv6": {netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")},
}

// packetTo makes a WRITE ONLY with a PSN.
func packetTo(p *transport.Path, psn uint32, payload []byte) transport.TxPacket {
	tx := transport.TxPacket{Path: p, SrcQP: 7, HeaderLen: 28, PayloadLen: uint16(len(payload)), NumFrags: 1,
		Pad: uint8(-len(payload) & 3)}
	tx.Header = [ib.MaxHeaderBytes]byte{0: ether.OpWriteOnly, 1: tx.Pad << 4, 2: 0xff, 3: 0xff, 7: 0x11,
		9: byte(psn >> 16), 10: byte(psn >> 8), 11: byte(psn)}
	tx.Frags[0] = payload
	return tx
}

// wireBytes are what a packet is on the wire, from the BTH on, with identification 0.
func wireBytes(p *transport.TxPacket) []byte {
	c := link.FlowICRC(p.Path, ib.UDPPort, ib.UDPPort)
	return link.AppendPacket(nil, &c, p, 0)
}

func newPair(t *testing.T) (*Link, *memoryLink, *ether.Switch) {
	t.Helper()
	sw, below := ether.New(), newMemoryLink()
	t.Cleanup(sw.Close)
	w, err := New(below, sw)
	require.NoError(t, err)
	return w, below, sw
}

func TestSendIsUnchanged(t *testing.T) {
	for name, e := range ends {
		t.Run(name, func(t *testing.T) {
			w, below, _ := newPair(t)
			path := &transport.Path{Src: e[0], Dst: e[1], TrafficClass: 0x42, HopLimit: 9}
			var batch []transport.TxPacket
			for n := range 9 {
				batch = append(batch, packetTo(path, uint32(0xfffffd+n)&0xffffff, bytes.Repeat([]byte{byte(n)}, 20+n)))
			}
			w.Send(batch)
			got := below.take(len(batch))
			require.Len(t, got, len(batch))
			for i := range got {
				require.Equal(t, wireBytes(&batch[i]), wireBytes(&got[i]))
				require.EqualValues(t, 28, got[i].HeaderLen)
				require.EqualValues(t, 0x42, got[i].Path.TrafficClass)
				require.EqualValues(t, 9, got[i].Path.HopLimit)
			}
			require.NoError(t, w.Close())
			require.True(t, below.closed)
		})
	}
}

func TestRulesOnSend(t *testing.T) {
	for name, e := range ends {
		t.Run(name, func(t *testing.T) {
			w, below, sw := newPair(t)
			path := &transport.Path{Src: e[0], Dst: e[1], TrafficClass: 2, HopLimit: 64}
			send := func(psns ...uint32) {
				var batch []transport.TxPacket
				for _, psn := range psns {
					batch = append(batch, packetTo(path, psn, []byte("some bytes!")))
				}
				w.Send(batch)
			}
			act := func(r *ether.Rule) *ether.Rule {
				r.Match.From, r.Match.QPN = Near, 0x11
				sw.Add(r)
				return r
			}
			psn := func(p transport.TxPacket) int { return int(p.Header[11]) }

			lost := act(&ether.Rule{Match: ether.Match{PSN: 1}, Kind: ether.Drop, Nth: 2})
			send(1, 1, 1)
			require.Len(t, below.take(2), 2)
			require.Equal(t, 1, lost.Hits())

			act(&ether.Rule{Match: ether.Match{PSN: 2}, Kind: ether.Duplicate})
			send(2)
			require.Len(t, below.take(2), 2)

			act(&ether.Rule{Match: ether.Match{PSN: 3}, Kind: ether.Hold, MaxHold: time.Hour})
			send(3, 4)
			got := below.take(2)
			require.Equal(t, []int{4, 3}, []int{psn(got[0]), psn(got[1])})

			act(&ether.Rule{Match: ether.Match{PSN: 5}, Kind: ether.Hold}) // nothing follows: a timer releases it
			send(5)
			require.Equal(t, 5, psn(below.take(1)[0]))

			act(&ether.Rule{Match: ether.Match{PSN: 6}, Kind: ether.Corrupt, Offset: -5})
			send(6)
			bad := below.take(1)[0]
			require.NotZero(t, bad.ICRCXor)
			want := packetTo(path, 6, []byte("some bytes!"))
			right := wireBytes(&want)
			sent := wireBytes(&bad)
			require.Equal(t, right[len(right)-4:], sent[len(sent)-4:],
				"the ICRC is that of the packet before the damage")
			require.NotEqual(t, right, sent)

			act(&ether.Rule{Match: ether.Match{PSN: 7}, Kind: ether.Rewrite, Edit: func(p *ether.Packet) {
				p.Body()[20] ^= 1
			}})
			send(7)
			changed := below.take(1)[0]
			require.Zero(t, changed.ICRCXor)
			want = packetTo(path, 7, []byte("some bytes!"))
			require.NotEqual(t, wireBytes(&want), wireBytes(&changed))

			act(&ether.Rule{Match: ether.Match{PSN: 8}, Kind: ether.MarkCE})
			send(8, 9)
			got = below.take(2)
			require.EqualValues(t, 3, got[0].Path.TrafficClass)
			require.EqualValues(t, 2, got[1].Path.TrafficClass)

			// What is injected towards the network goes out by the way of its flow.
			tr := sw.Trace(nil)
			send(10)
			below.take(1)
			sw.Port(Far).Inject(tr.Events()[0].Pkt.Frame)
			require.Equal(t, 10, psn(below.take(1)[0]))
			require.NoError(t, w.Close())
		})
	}
}

func TestReceive(t *testing.T) {
	for name, e := range ends {
		t.Run(name, func(t *testing.T) {
			w, below, sw := newPair(t)
			path := &transport.Path{Src: e[1], Dst: e[0]}
			arrives := func(psns ...uint32) {
				for _, psn := range psns {
					p := packetTo(path, psn, []byte("some bytes!"))
					c := link.FlowICRC(path, 0xc123, ib.UDPPort)
					id := uint16(psn * 77) // which IPv6 does not have
					below.rx = append(below.rx, transport.RxPacket{Src: e[1], Dst: e[0], SrcPort: 0xc123,
						TrafficClass: 0x2a, HopLimit: 63, Data: link.AppendPacket(nil, &c, &p, id)})
				}
			}
			var batch [8]transport.RxPacket
			psns := func() (out []int) {
				for {
					n, err := w.Recv(batch[:3])
					require.NoError(t, err)
					if n == 0 {
						require.True(t, w.CaughtUp())
						return out
					}
					for _, p := range batch[:n] {
						require.Equal(t, e[1], p.Src)
						require.Equal(t, e[0], p.Dst)
						require.EqualValues(t, 63, p.HopLimit)
						require.EqualValues(t, 0xc123, p.SrcPort)
						out = append(out, int(p.Data[11]))
					}
				}
			}
			arrives(1, 2, 3, 4, 5)
			require.Equal(t, []int{1, 2, 3, 4, 5}, psns())
			require.EqualValues(t, 0x2a, batch[0].TrafficClass)

			from := func(psn uint32) ether.Match { return ether.Match{From: Far, QPN: 0x11, PSN: psn} }
			sw.Add(&ether.Rule{Match: from(1), Kind: ether.Drop}, &ether.Rule{Match: from(2), Kind: ether.Duplicate},
				&ether.Rule{Match: from(3), Kind: ether.Hold, MaxHold: time.Hour},
				&ether.Rule{Match: from(5), Kind: ether.Corrupt, Offset: -5},
				&ether.Rule{Match: from(6), Kind: ether.MarkCE})
			arrives(1, 2, 3, 4, 5)
			require.Equal(t, []int{2, 2, 4, 3}, psns())
			require.EqualValues(t, 4, w.Stats().RxICRC, "the damaged one is counted as a link does")
			arrives(6)
			require.Equal(t, []int{6}, psns())
			require.EqualValues(t, 0x2b, batch[0].TrafficClass)

			// What a device is to see besides wakes it.
			tr := sw.Trace(nil)
			arrives(7)
			require.Equal(t, []int{7}, psns())
			before := below.woken
			sw.Port(Near).Inject(tr.Events()[0].Pkt.Frame)
			require.Greater(t, below.woken, before)
			require.False(t, w.CaughtUp())
			require.NoError(t, w.Wait(-1))
			require.Equal(t, []int{7}, psns())
			require.NoError(t, w.Close())
		})
	}
}

// Packets of two families, and frames to where nobody has sent, go nowhere.
func TestNowhere(t *testing.T) {
	w, below, sw := newPair(t)
	mixed := &transport.Path{Src: ends["ipv4"][0], Dst: ends["ipv6"][0]}
	w.Send([]transport.TxPacket{packetTo(mixed, 1, nil)})
	sw.Port(Far).Inject([]byte("no packet, but long enough for a frame, and more than that"))
	sw.Port(Near).Inject([]byte("no packet, but long enough for a frame, and more than that"))
	require.NoError(t, w.Close())
	require.Empty(t, below.sent)
	var batch [1]transport.RxPacket
	n, err := w.Recv(batch[:])
	require.NoError(t, err)
	require.Zero(t, n)
	_, err = New(below, sw)
	require.NoError(t, err, "Close takes the ports off the switch")
	_, err = New(below, sw)
	require.Error(t, err)
}
