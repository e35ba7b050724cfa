package tool

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	require.Nil(t, NewProgress(&Env{Stderr: &out}, "write_bw", 10, 1))

	p := NewProgress(&Env{Stderr: &out, Terminal: true}, "write_bw", 1000, 1<<20)
	p.update(100, p.start.Add(progressEvery/2))
	p.Done()
	require.Empty(t, out.String(), "a short run shows no line")

	p.update(250, p.start.Add(5*time.Second))
	require.Equal(t, "\r\x1b[Kwrite_bw: 1048576 bytes, 250 messages of 1000 (25%), 50.0 MiB/s", out.String())
	p.update(260, p.start.Add(5*time.Second+progressEvery/2))
	out.Reset()
	p.Done()
	require.Equal(t, "\r\x1b[K", out.String())

	var none *Progress
	none.Update(1)
	none.Done()
}
