package node

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a stream is written from is memory that was written, and does not begin as the last chunk
// does.
func TestChunkIsWritten(t *testing.T) {
	b := newChunk()
	require.Len(t, b, chunkBytes)
	require.NotEqual(t, byte(chunkLast), b[0])
	page := os.Getpagesize()
	zeros := make([]byte, page)
	for at := 0; at+page <= len(b); at += page {
		require.False(t, bytes.Equal(zeros, b[at:at+page]), "page at %d", at)
	}
}
