package rsocket

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

// Whatever the source, and however it gives its bytes, they arrive; and what it says at the end is
// returned, but for io.EOF.
func TestReadFrom(t *testing.T) {
	data := randomBytes(70, 3_000_003)
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, data, 0o600))
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	broken := errors.New("the source is broken")
	for what, tt := range map[string]struct {
		src  io.Reader
		size int
		err  error
	}{
		"bytes":            {bytes.NewReader(data), len(data), nil},
		"string":           {strings.NewReader(string(data)), len(data), nil},
		"part of a buffer": {io.LimitReader(bytes.NewBuffer(data), 100_001), 100_001, nil},
		"few":              {bytes.NewReader(data[:inlineBytes-1]), inlineBytes - 1, nil},
		"one":              {bytes.NewReader(data[:1]), 1, nil},
		"nothing":          {bytes.NewReader(nil), 0, nil},
		"file":             {file, len(data), nil},
		"reader":           {struct{ io.Reader }{bytes.NewReader(data)}, len(data), nil},
		"byte by byte":     {iotest.OneByteReader(bytes.NewReader(data[:2000])), 2000, nil},
		"end with data":    {iotest.DataErrReader(bytes.NewReader(data[:100_000])), 100_000, nil},
		"error": {io.MultiReader(bytes.NewReader(data[:100_000]), iotest.ErrReader(broken)),
			100_000, broken},
		"never": {io.MultiReader(bytes.NewReader(data[:100]), never{}), 100, io.ErrNoProgress},
	} {
		t.Run(what, func(t *testing.T) {
			c, s := simNetwork(t, sim.Config{Seed: 70}).pair(t, Config{})
			got := readAll(s)
			n, err := c.ReadFrom(tt.src)
			require.ErrorIs(t, err, tt.err)
			require.EqualValues(t, tt.size, n)
			require.NoError(t, c.CloseWrite())
			b, err := got()
			require.NoError(t, err)
			require.True(t, bytes.Equal(data[:tt.size], b))
		})
	}
}

type never struct{}

func (never) Read([]byte) (int, error) { return 0, nil }

// Small and large pieces, and Writes in between, are in order.
func TestReadFromBetweenWrites(t *testing.T) {
	networks(t, func(t *testing.T, n *network) {
		c, s := n.pair(t, Config{})
		got := readAll(s)
		data := randomBytes(71, 1_000_000)
		for off, k := 0, 1; off < len(data); k = k*5%90_000 + 1 {
			k = min(k, len(data)-off)
			var err error
			if k%2 == 0 {
				_, err = c.Write(data[off : off+k])
			} else {
				_, err = c.ReadFrom(bytes.NewReader(data[off : off+k]))
			}
			require.NoError(t, err)
			off += k
		}
		require.NoError(t, c.CloseWrite())
		b, err := got()
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, b))
	})
}

// While ReadFrom waits for its source, others may write, and close the connection.
func TestReadFromWaits(t *testing.T) {
	c, s := udpNetwork(t).pair(t, Config{})
	src, more := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := c.ReadFrom(src)
		done <- err
	}()
	_, err := more.Write([]byte("first "))
	require.NoError(t, err)
	b := make([]byte, 12)
	_, err = io.ReadFull(s, b[:6])
	require.NoError(t, err)
	_, err = c.Write([]byte("second"))
	require.NoError(t, err)
	_, err = io.ReadFull(s, b[6:])
	require.NoError(t, err)
	require.Equal(t, "first second", string(b))
	require.NoError(t, c.Close())
	_, err = more.Write([]byte("too late"))
	require.NoError(t, err)
	require.ErrorIs(t, <-done, net.ErrClosed)
}

// A peer that reads nothing has ReadFrom wait; Close ends that.
func TestReadFromEnds(t *testing.T) {
	c, _ := udpNetwork(t).pair(t, Config{})
	done := make(chan error, 1)
	go func() {
		_, err := c.ReadFrom(bytes.NewReader(make([]byte, 16<<20)))
		done <- err
	}()
	for waits := false; !waits; { // it has filled what there is
		c.mu.Lock()
		waits = c.polling
		c.mu.Unlock()
	}
	require.NoError(t, c.SetLinger(0))
	require.NoError(t, c.Close())
	requireOp(t, <-done, "write", net.ErrClosed)
}
