package rsocket

import (
	"bytes"
	"io"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/goroce/goroce/roce"
	"github.com/stretchr/testify/require"
)

// recvN reads n bytes, which make visible what was written into mappings before them.
func recvN(t *testing.T, c *Conn, n int) []byte {
	b := make([]byte, n)
	_, err := io.ReadFull(c, b)
	require.NoError(t, err)
	return b
}

func TestMap(t *testing.T) {
	networks(t, func(t *testing.T, n *network) {
		c, s := n.pair(t, Config{IOMaps: 2})
		buf := [2][]byte{make([]byte, 300_000), make([]byte, 1000)}
		one, err := s.Map(buf[0], 0)
		require.NoError(t, err)
		_, err = s.Map(buf[1], 1<<40)
		require.NoError(t, err)
		_, err = s.Map(make([]byte, 1), 5)
		requireOp(t, err, "map", ErrNoMaps)
		_, err = s.Write([]byte("mapped"))
		require.NoError(t, err)
		require.Equal(t, "mapped", string(recvN(t, c, 6)))

		want := randomBytes(1, len(buf[0]))
		k, err := c.WriteAt(want, 0)
		require.NoError(t, err)
		require.Equal(t, len(want), k)
		_, err = c.WriteAt([]byte("tiny"), 1<<40+996)
		require.NoError(t, err)
		// Past the end of a mapping: what fits is written.
		k, err = c.WriteAt([]byte("more"), 1<<40+999)
		requireOp(t, err, "write", ErrNotMapped)
		require.Equal(t, 1, k)
		_, err = c.WriteAt([]byte("x"), 300_000)
		require.ErrorIs(t, err, ErrNotMapped)
		_, err = c.WriteAt([]byte("x"), -1)
		require.ErrorIs(t, err, roce.ErrInvalidAttr)
		_, err = c.Write([]byte("written"))
		require.NoError(t, err)
		require.Equal(t, "written", string(recvN(t, s, 7)))
		one.Sync()
		require.True(t, bytes.Equal(want, buf[0]))
		require.Equal(t, "tinm", string(buf[1][996:]))

		// The entry is free again, and the peer that still uses it loses the connection.
		require.NoError(t, one.Close())
		require.NoError(t, one.Close())
		_, err = c.WriteAt([]byte("late"), 0)
		require.NoError(t, err)
		_, err = c.Read(make([]byte, 1))
		requireOp(t, err, "read", syscall.EIO)
		require.True(t, bytes.Equal(want, buf[0]))
	})
}

// A mark that the peer leaves in a mapping is looked for while it writes there.
func TestMapReadAt(t *testing.T) {
	networks(t, func(t *testing.T, n *network) {
		c, s := n.pair(t, Config{IOMaps: 1})
		buf := make([]byte, 10_000)
		m, err := s.Map(buf, 0)
		require.NoError(t, err)
		_, err = s.Write([]byte("mapped"))
		require.NoError(t, err)
		require.Equal(t, "mapped", string(recvN(t, c, 6)))
		want := randomBytes(2, len(buf))
		want[len(want)-1] = 1
		_, err = c.WriteAt(want, 0)
		require.NoError(t, err)
		if n.fabric != nil { // which moves only while somebody waits
			_, err = c.Write([]byte("x"))
			require.NoError(t, err)
			recvN(t, s, 1)
		}
		var mark [1]byte
		for mark[0] == 0 {
			k, err := m.ReadAt(mark[:], int64(len(buf)-1))
			require.NoError(t, err)
			require.Equal(t, 1, k)
			runtime.Gosched()
		}
		require.True(t, bytes.Equal(want, buf))
		k, err := m.ReadAt(make([]byte, 2), int64(len(buf)-1))
		require.Equal(t, 1, k)
		require.ErrorIs(t, err, io.EOF)

		// What was written stays, and can be read as before.
		for range 2 {
			for _, c := range []struct{ off, n, got int }{
				{0, 7, 7}, {len(buf) - 7, 7, 7}, {len(buf) - 1, 2, 1}, {len(buf), 1, 0}, {1 << 30, 1, 0}, {5, 0, 0},
			} {
				b := make([]byte, c.n)
				k, err := m.ReadAt(b, int64(c.off))
				require.Equal(t, c.got, k, "%+v", c)
				if c.got < c.n {
					require.Equal(t, io.EOF, err, "%+v", c)
				} else {
					require.NoError(t, err)
				}
				if c.got > 0 {
					require.Equal(t, want[c.off:c.off+c.got], b[:c.got])
				}
			}
			_, err = m.ReadAt(mark[:], -1)
			require.ErrorIs(t, err, roce.ErrInvalidAttr)
			require.NoError(t, m.Close())
		}
	})
}

// Mappings are taken back while the connection is closed.
func TestMapCloseRaces(t *testing.T) {
	n := udpNetwork(t)
	for range 20 {
		_, s := n.pair(t, Config{IOMaps: 4})
		var closed sync.WaitGroup
		for i := range int64(4) {
			m, err := s.Map(make([]byte, 100), 100*i)
			require.NoError(t, err)
			closed.Go(func() {
				if err := m.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		require.NoError(t, s.Close())
		closed.Wait()
	}
}

func TestMapArguments(t *testing.T) {
	n := udpNetwork(t)
	c, s := n.pair(t, Config{})
	_, err := c.Map(make([]byte, 10), 0)
	require.ErrorIs(t, err, ErrNoMaps, "the peer has no table")
	_, err = c.Map(nil, 0)
	require.ErrorIs(t, err, roce.ErrInvalidAttr)
	_, err = c.Map(make([]byte, 10), -1)
	require.ErrorIs(t, err, roce.ErrInvalidAttr)
	_, err = s.WriteAt([]byte{1}, 0)
	require.ErrorIs(t, err, ErrNotMapped)
}

// A mapping goes with its connection.
func TestMapAfterClose(t *testing.T) {
	n := udpNetwork(t)
	c, _ := n.pair(t, Config{IOMaps: 2})
	var maps []*Mapping
	for range 2 {
		m, err := c.Map(make([]byte, 10), 0)
		require.NoError(t, err)
		maps = append(maps, m)
	}
	require.NoError(t, maps[0].Close())
	require.NoError(t, maps[0].Close(), "again does nothing")
	require.NoError(t, c.Close())
	require.NoError(t, maps[1].Close(), "it ended with the connection")
	require.NoError(t, maps[1].Close())
	n1, err := maps[1].ReadAt(make([]byte, 11), 0)
	require.Equal(t, 10, n1, "what is left there")
	require.Equal(t, io.EOF, err)
}

// Each mapping costs a credit for good; before the stream would stand still Map refuses.
func TestMapCredits(t *testing.T) {
	n := udpNetwork(t)
	c, s, err := n.connect(testContext(t), Config{IOMaps: 1}, Config{IOMaps: 1, RecvQueue: 40})
	require.NoError(t, err)
	defer c.Close()
	defer s.Close()
	made := 0
	for {
		m, err := c.Map(make([]byte, 10), 0)
		if err != nil {
			require.ErrorIs(t, err, ErrNoMaps)
			break
		}
		require.NoError(t, m.Close())
		made++
	}
	require.Equal(t, 10, made)
	got := readAll(s)
	for range 500 {
		_, err := c.Write([]byte("tick"))
		require.NoError(t, err)
	}
	require.NoError(t, c.CloseWrite())
	b, err := got()
	require.NoError(t, err)
	require.Len(t, b, 2000)
}

// An application that waits for nothing but a mapping notices that the peer has gone.
func TestErr(t *testing.T) {
	networks(t, func(t *testing.T, n *network) {
		c, s := n.pair(t, Config{})
		require.NoError(t, c.Err())
		require.NoError(t, s.Close())
		ctx := testContext(t)
		for c.Err() == nil {
			require.NoError(t, ctx.Err())
			if n.fabric != nil {
				n.fabric.Step()
			}
		}
		require.Equal(t, io.EOF, c.Err())
	})
}
