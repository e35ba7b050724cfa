package transport

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/mem"
)

// halfLost registers 16 KiB of which the second half cannot be touched, and returns the first.
func halfLost(t *testing.T, s *side) ([]byte, *mem.Region) {
	const half = 8 << 10
	b, err := unix.Mmap(-1, 0, 2*half, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANONYMOUS|unix.MAP_PRIVATE)
	require.NoError(t, err)
	require.NoError(t, unix.Mprotect(b[half:], unix.PROT_NONE))
	t.Cleanup(func() { require.NoError(t, unix.Munmap(b)) })
	m, err := s.mem.Register(s.pd,
		mem.RegionAttr{Bytes: b, IOVA: 1 << 30, IOVASet: true, Access: mem.LocalWrite | mem.RemoteWrite})
	require.NoError(t, err)
	return b[:half], m
}
