package rsocket

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

func randomBytes(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed)})
	_, _ = r.Read(b)
	return b
}

// The packets of both sides carry what either asks for; a server that asks for nothing
// takes the client's.
func TestTrafficClass(t *testing.T) {
	for _, tt := range []struct{ client, server, want uint8 }{{0, 0, 0}, {0x68, 0, 0x68}, {0x68, 0x20, 0x20}} {
		n := simNetwork(t, sim.Config{Seed: 1})
		c, s, err := n.connect(testContext(t), Config{TrafficClass: tt.client}, Config{TrafficClass: tt.server})
		require.NoError(t, err)
		for conn, want := range map[*Conn]uint8{c: tt.client, s: tt.want} {
			a, _, err := conn.qp.Query()
			require.NoError(t, err)
			require.Equal(t, want, a.AV.TrafficClass)
		}
		require.NoError(t, c.Close())
		require.NoError(t, s.Close())
	}
}

// Sizes around every limit there is, and bytes that are right.
func TestTransfer(t *testing.T) {
	networks(t, func(t *testing.T, n *network) {
		c, s := n.pair(t, Config{})
		for i, size := range []int{1, 2, inlineBytes, inlineBytes + 1, startTransfer, 65537,
			defaultBuffer / 2, defaultBuffer, defaultBuffer + 1, 3<<20 + 7} {
			want := randomBytes(uint64(i), size)
			for _, dir := range [][2]*Conn{{c, s}, {s, c}} {
				errs := make(chan error, 1)
				go func() {
					_, err := dir[0].Write(want)
					errs <- err
				}()
				got := make([]byte, size)
				_, err := io.ReadFull(dir[1], got)
				require.NoError(t, err)
				require.NoError(t, <-errs)
				require.True(t, bytes.Equal(want, got), "%d bytes", size)
			}
		}
	})
}
