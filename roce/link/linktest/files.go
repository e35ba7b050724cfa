package linktest

import (
	"os"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

// FewFiles lets the process open only so many more files until the end of the test, which must
// not run in parallel with others.
func FewFiles(t *testing.T, more int) {
	t.Helper()
	f, err := os.Open(os.DevNull)
	require.NoError(t, err)
	next := f.Fd() // the lowest that is free
	require.NoError(t, f.Close())
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	low := old
	low.Cur = uint64(next) + uint64(more)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
	t.Cleanup(func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old)) })
}
