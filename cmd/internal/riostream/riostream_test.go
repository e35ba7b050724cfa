package riostream

import (
	"testing"

	"github.com/goroce/goroce/cmd/internal/toolcheck"
	"github.com/stretchr/testify/require"
)

func TestLoopback(t *testing.T) {
	for _, args := range []string{
		"-S 3000 -C 20 -I 3 -T v", "-S 2 -C 1 -I 100 -T v", "-S 1000000 -C 4 -T v -B 5000", "-S 1 -C 3 -I 5",
	} {
		t.Run(args, func(t *testing.T) {
			server, client := toolcheck.Pair(t, Command(), nil, "-p 0 --addr LOCAL "+args, "--addr LOCAL -s SERVER -p PORT "+args)
			require.NoError(t, client.Err, "server: %v", server.Err)
			require.NoError(t, server.Err)
			for _, s := range []*toolcheck.Side{server, client} {
				require.Contains(t, s.Stdout.String(), "Gb/sec    usec/xfer\ncustom    ")
			}
		})
	}
}

func TestLoopbackIPv6(t *testing.T) {
	server, client := toolcheck.Pair(t, Command(), toolcheck.Shared6(t), "-p 0 -b :: -S 3000 -C 20 -T v", "-s SERVER -p PORT -S 3000 -C 20 -T v")
	require.NoError(t, client.Err, "server: %v", server.Err)
	require.NoError(t, server.Err)
}
