package sockio

import (
	"testing"

	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// Each option has a range, and the error names the option.
func TestCheckBuffers(t *testing.T) {
	for _, c := range []struct {
		bytes, buffers int
		arg            string
	}{
		{0, 0, ""}, {maxSocketBuffer, MaxReadBatch, ""},
		{-1, 0, "SocketBufferBytes"}, {maxSocketBuffer + 1, 0, "SocketBufferBytes"},
		{0, -1, "RxBuffers"}, {0, MaxReadBatch + 1, "RxBuffers"},
	} {
		err := CheckBuffers(c.bytes, c.buffers)
		if c.arg == "" {
			require.NoError(t, err)
			continue
		}
		var arg *edge.ArgError
		require.ErrorAs(t, err, &arg)
		require.Equal(t, c.arg, arg.Arg)
	}
}
