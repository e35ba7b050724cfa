package linktest

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// giveUp bounds what would otherwise hang; no test depends on its length.
const giveUp = 2 * time.Minute

// NewPath returns a path from the first address of a to that of b.
func NewPath(a, b link.Link) *edge.Path {
	return &edge.Path{Src: a.Addrs()[0], Dst: b.Addrs()[0], SrcPort: 0xC123, HopLimit: 33}
}

// Packet makes a packet with a payload of n random bytes in up to four pieces.
func Packet(r *rand.Rand, path *edge.Path, n int) edge.TxPacket {
	tx := edge.TxPacket{Path: path, PayloadLen: uint16(n), Pad: uint8(-n & 3)}
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.RCWriteMiddle, Pad: tx.Pad, PKey: ib.PKeyDefault, DestQP: 17,
		PSN: ib.PSN(r.Uint32()) & ib.PSNMask}}
	tx.HeaderLen = uint8(p.PutHeaders(tx.Header[:]))
	for left := n; left > 0; tx.NumFrags++ {
		k := left
		if tx.NumFrags < edge.MaxTxFrags-1 && left > 1 && r.IntN(2) == 0 {
			k = 1 + r.IntN(left)
		}
		f := randomBytes(r, k)
		tx.Frags[tx.NumFrags] = f
		left -= k
	}
	return tx
}

// randomBytes makes n of them, eight at a time: the race detector looks at each access.
func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, 0, n+7)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, r.Uint64())
	}
	return b[:n:n]
}

// Receive returns the next n packets of a link, copied.
func Receive(t testing.TB, l link.Link, n int) []edge.RxPacket {
	t.Helper()
	var out []edge.RxPacket
	batch := make([]edge.RxPacket, 7)
	end := time.Now().Add(giveUp)
	for len(out) < n {
		k, err := receive(l, batch)
		require.NoError(t, err)
		for _, p := range batch[:k] {
			p.Data = append([]byte(nil), p.Data...)
			out = append(out, p)
		}
		if k == 0 {
			left := time.Until(end)
			require.Positive(t, left, "%d of %d packets arrived; %+v", len(out), n, l.Stats())
			require.NoError(t, l.Wait(min(left, time.Second)))
		}
	}
	require.Len(t, out, n)
	return out
}

// Drive does what a device does for the sending side of a link until cond.
func Drive(t testing.TB, l link.Link, cond func() bool) {
	t.Helper()
	end := time.Now().Add(giveUp)
	for !cond() {
		require.True(t, time.Now().Before(end), "gave up: %+v", l.Stats())
		if l.Blocked() {
			l.Send(nil)
			continue
		}
		require.NoError(t, l.Wait(10*time.Millisecond))
	}
}

// SendAll sends the packets and waits until all have left.
func SendAll(t testing.TB, l link.Link, batch []edge.TxPacket) {
	t.Helper()
	before := l.Stats()
	l.Send(batch)
	Drive(t, l, func() bool {
		s := l.Stats()
		return s.TxPackets+s.TxDropped >= before.TxPackets+before.TxDropped+uint64(len(batch))
	})
}

// Drain takes what has arrived, and returns how many packets that were.
func Drain(t testing.TB, l link.Link) (n int) {
	t.Helper()
	batch := make([]edge.RxPacket, 64)
	for {
		k, err := receive(l, batch)
		require.NoError(t, err)
		if k == 0 {
			return n
		}
		n += k
	}
}

// SendUntil sends packets that need not arrive until cond.
func SendUntil(t testing.TB, l link.Link, path *edge.Path, cond func() bool) {
	t.Helper()
	batch := []edge.TxPacket{Packet(rand.New(rand.NewPCG(1, 1)), path, 64)}
	end := time.Now().Add(giveUp)
	for !cond() {
		require.True(t, time.Now().Before(end), "gave up: %+v", l.Stats())
		l.Send(batch)
		require.NoError(t, l.Wait(time.Millisecond))
	}
}

// Reaches sends packets from a until one of them has arrived at b; what was
// sent before does not count.
func Reaches(t testing.TB, a, b link.Link, path *edge.Path) {
	t.Helper()
	// A number that no packet before had tells them apart.
	number := nextNumber.Add(1)
	one := []edge.TxPacket{Packet(rand.New(rand.NewPCG(number, 0)), path, 64)}
	arrived := false
	batch := make([]edge.RxPacket, 64)
	end := time.Now().Add(giveUp)
	for !arrived {
		require.True(t, time.Now().Before(end), "nothing arrives: %+v, %+v", a.Stats(), b.Stats())
		a.Send(one)
		require.NoError(t, a.Wait(time.Millisecond))
		for {
			k, err := receive(b, batch)
			require.NoError(t, err)
			if k == 0 {
				break
			}
			for _, p := range batch[:k] {
				arrived = arrived || same(&one[0], &p)
			}
		}
	}
}

var nextNumber atomic.Uint64

// Await receives until all packets of the batch have arrived, in their order;
// others in between are left out.
func Await(t testing.TB, l link.Link, batch []edge.TxPacket) {
	t.Helper()
	rx := make([]edge.RxPacket, 7)
	end := time.Now().Add(giveUp)
	for i := 0; i < len(batch); {
		k, err := receive(l, rx)
		require.NoError(t, err)
		for _, p := range rx[:k] {
			if i < len(batch) && same(&batch[i], &p) {
				i++
			}
		}
		if k == 0 {
			left := time.Until(end)
			require.Positive(t, left, "%d of %d packets arrived; %+v", i, len(batch), l.Stats())
			require.NoError(t, l.Wait(min(left, time.Second)))
		}
	}
}

// same reports whether a packet that was received is one that was sent.
func same(tx *edge.TxPacket, rx *edge.RxPacket) bool {
	return bytes.Equal(tx.AppendTo(nil), rx.Data[:len(rx.Data)-ib.ICRCBytes])
}
