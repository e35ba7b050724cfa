package trace

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/capture"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// The bytes of a file are those of the draft.
func TestWriterBytes(t *testing.T) {
	var file bytes.Buffer
	w, err := NewWriter(&file)
	require.NoError(t, err)
	for _, outbound := range []bool{true, false} {
		require.NoError(t, w.Packet(0x0102030405060708, outbound, []byte{0xA1}, []byte{0xB1, 0xB2}))
	}
	packet := func(flags string) string {
		return "06000000 30000000 00000000 04030201 08070605 03000000 03000000 a1b1b200 02000400" + flags +
			"00000000 30000000"
	}
	want := strings.ReplaceAll("0a0d0d0a 1c000000 4d3c2b1a 01000000 ffffffff ffffffff 1c000000"+ // section
		"01000000 20000000 65000000 00000000 09000100 09000000 00000000 20000000"+ // interface, nanoseconds
		packet("02000000")+packet("01000000"), " ", "")
	require.Equal(t, want, hex.EncodeToString(file.Bytes()))
}

// below is a link that hands up what a test says.
type below struct {
	link.Link
	virtual bool
	sent    int
	come    []edge.RxPacket
}

func (l *below) Capabilities() link.Capabilities { return link.Capabilities{Virtual: l.virtual} }
func (l *below) Now() int64                      { return 77 }
func (l *below) SourcePort(p *edge.Path) uint16  { return p.SrcPort }
func (l *below) Send(batch []edge.TxPacket)      { l.sent += len(batch) }
func (l *below) Recv(b []edge.RxPacket) (int, error) {
	n := copy(b, l.come)
	return n, nil
}

func packetOn(p *edge.Path, psn int) edge.TxPacket {
	tx := edge.TxPacket{Path: p}
	h := ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendOnly, PSN: ib.PSN(psn)}}
	tx.HeaderLen = uint8(h.PutHeaders(tx.Header[:]))
	return tx
}

var four, six = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::2")

// All that is sent passes, and what can be is in the trace; so is what was received.
func TestLink(t *testing.T) {
	var file bytes.Buffer
	l := &below{virtual: true}
	tr, err := New(l, &file)
	require.NoError(t, err)
	require.Same(t, l, tr.Unwrap())
	p := &edge.Path{Src: four, Dst: four.Next(), SrcPort: 0xC001, TrafficClass: 5, HopLimit: 6}
	tr.Send(nil)
	tr.Send([]edge.TxPacket{packetOn(p, 1)})
	tr.Send([]edge.TxPacket{packetOn(p, 2), packetOn(&edge.Path{Src: four, Dst: six}, 9), packetOn(p, 3)})
	tr.Send([]edge.TxPacket{packetOn(&edge.Path{Src: four, Dst: six}, 9)})
	require.Equal(t, 5, l.sent)
	c := ib.NewICRC(ib.Flow{Src: p.Dst, Dst: p.Src, SrcPort: 0xC002, DstPort: ib.UDPPort})
	tx := packetOn(p, 4)
	l.come = []edge.RxPacket{{
		Data: link.AppendPacket(nil, &c, &tx, 0x4321), Src: p.Dst, Dst: p.Src, SrcPort: 0xC002,
		TrafficClass: 7, HopLimit: 8,
	}}
	n, err := tr.Recv(make([]edge.RxPacket, 3))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	l.come = nil
	n, err = tr.Recv(make([]edge.RxPacket, 3))
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, tr.Err())
	require.EqualValues(t, 4, tr.Packets())

	r, err := capture.NewReader(&file)
	require.NoError(t, err)
	for psn := 1; psn <= 4; psn++ {
		seen, at, err := r.Next()
		require.NoError(t, err)
		require.EqualValues(t, 77, at.UnixNano())
		require.EqualValues(t, psn, seen.Payload[11])
		if psn < 4 {
			require.Equal(t, ib.Flow{Src: p.Src, Dst: p.Dst, SrcPort: 0xC001, DstPort: ib.UDPPort}, seen.Flow)
			require.Equal(t, [3]int{5, 6, 0}, [3]int{int(seen.TrafficClass), int(seen.HopLimit), int(seen.Ident)})
		} else {
			require.Equal(t, ib.Flow{Src: p.Dst, Dst: p.Src, SrcPort: 0xC002, DstPort: ib.UDPPort}, seen.Flow)
			require.Equal(t, [3]int{7, 8, 0x4321}, [3]int{int(seen.TrafficClass), int(seen.HopLimit), int(seen.Ident)})
		}
	}
	_, _, err = r.Next()
	require.ErrorIs(t, err, io.EOF)
}

// Where time passes by itself, the trace has that of the wall.
func TestLinkClock(t *testing.T) {
	tr, err := New(&below{}, io.Discard)
	require.NoError(t, err)
	require.Greater(t, tr.base, int64(1_700_000_000_000_000_000))
}

// A trace that cannot be written on ends, and says so; the link goes on.
func TestLinkError(t *testing.T) {
	_, err := New(&below{virtual: true}, &failingWriter{})
	require.Error(t, err)
	l := &below{virtual: true}
	tr, err := New(l, &failingWriter{2})
	require.NoError(t, err)
	p := &edge.Path{Src: four, Dst: four.Next()}
	for psn := range 4 {
		tr.Send([]edge.TxPacket{packetOn(p, psn)})
		require.Equal(t, psn > 0, tr.Err() != nil)
		require.EqualValues(t, 1, tr.Packets())
	}
	require.Equal(t, 4, l.sent)
}

// To read a payload that is not there panics: what is before it is sent, and nothing behind.
func TestLinkPanic(t *testing.T) {
	l := &below{virtual: true}
	tr, err := New(l, io.Discard)
	require.NoError(t, err)
	p := &edge.Path{Src: four, Dst: four.Next()}
	lost := packetOn(p, 2)
	lost.NumFrags = edge.MaxTxFrags + 1
	require.Panics(t, func() { tr.Send([]edge.TxPacket{packetOn(p, 1), lost, packetOn(p, 3)}) })
	require.Equal(t, 1, l.sent)
	tr.Send([]edge.TxPacket{packetOn(p, 4)})
	require.Equal(t, 2, l.sent)
}

// The identification is the one that the ICRC fits, that of rxe for FLUSH, too; what fits none has
// none.
func TestIdentification(t *testing.T) {
	var h Headers
	s := link.Source{Src: four, Dst: four.Next(), SrcPort: 0xC001}
	c := h.ICRC(s)
	for _, op := range []ib.Opcode{ib.RCSendOnly, ib.RCFlush} {
		for _, id := range []uint16{0, 1, 0x8765} {
			p := ib.Packet{BTH: ib.BTH{Opcode: op}}
			b := make([]byte, int(op.Info().HeaderLen)+ib.ICRCBytes)
			p.PutHeaders(b)
			body := b[:len(b)-ib.ICRCBytes]
			ib.PutICRC(b[len(body):], c.Checksum(id, body))
			require.Equal(t, id, h.Identification(s, b))
			ib.PutICRC(b[len(body):], c.ChecksumFlushRxe(id, body))
			if op == ib.RCFlush {
				require.Equal(t, id, h.Identification(s, b))
			}
		}
	}
	require.Zero(t, h.Identification(link.Source{Src: six, Dst: six.Next()}, make([]byte, 40)))
	require.Zero(t, h.Identification(s, nil))
}

// The states that are kept are bounded, and those that are kept are used again.
func TestHeadersAreBounded(t *testing.T) {
	var h Headers
	first := h.ICRC(link.Source{Src: four, Dst: four})
	require.Same(t, first, h.ICRC(link.Source{Src: four, Dst: four}))
	for i := range maxFlows + 10 {
		s := link.Source{Src: four, Dst: six, SrcPort: uint16(i)}
		require.Same(t, h.ICRC(s), h.ICRC(s))
		if len(h.flows) > maxFlows {
			t.Fatal(len(h.flows))
		}
	}
	require.Greater(t, len(h.flows), 1)
}
