package trace

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/capture"
	"github.com/goroce/goroce/roce/link"
	"github.com/stretchr/testify/require"
)

// The headers are what an independent decoder takes for right, checksums
// included, and the times come back to the nanosecond.
func TestWriter(t *testing.T) {
	for _, c := range []struct{ src, dst string }{{"10.0.0.1", "10.0.0.2"}, {"fd00::1", "fd00::2"}} {
		for n := 16; n < 24; n++ { // every alignment of the block
			var file bytes.Buffer
			w, err := NewWriter(&file)
			require.NoError(t, err)
			body := bytes.Repeat([]byte{0xA5}, n)
			f := link.Source{Src: netip.MustParseAddr(c.src), Dst: netip.MustParseAddr(c.dst), SrcPort: 0xC123}
			head := AppendHeaders(nil, f, 0x6A, 63, 0x1234, body)
			const at int64 = 1_700_000_000_123_456_789
			require.NoError(t, w.Packet(at, true, head, body))

			r, err := capture.NewReader(&file)
			require.NoError(t, err)
			p, seen, err := r.Next()
			require.NoError(t, err)
			require.EqualValues(t, at, seen.UnixNano())
			require.NoError(t, p.Err)
			require.Equal(t, ib.Flow{Src: f.Src, Dst: f.Dst, SrcPort: 0xC123, DstPort: ib.UDPPort}, p.Flow)
			require.Equal(t, body, p.Payload)
			require.EqualValues(t, 0x6A, p.TrafficClass)
			require.EqualValues(t, 63, p.HopLimit)
			if f.Src.Is4() {
				require.EqualValues(t, 0x1234, p.Ident)
				require.NoError(t, p.CheckIPv4Header())
			} else {
				sum, err := p.WantUDPChecksum()
				require.NoError(t, err)
				require.Equal(t, sum, p.UDPChecksum)
			}
		}
	}
}

type failingWriter struct{ left int }

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, errors.New("disk full")
	}
	return len(b), nil
}

func TestWriterError(t *testing.T) {
	_, err := NewWriter(&failingWriter{})
	require.Error(t, err)
	w, err := NewWriter(&failingWriter{1})
	require.NoError(t, err)
	require.Error(t, w.Packet(0, false, nil, make([]byte, 3)))
}
