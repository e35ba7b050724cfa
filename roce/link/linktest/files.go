package linktest

import (
	"os"
	"syscall"
	"testing"

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
	var old syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old))
	low := old
	low.Cur = uint64(next) + uint64(more)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low))
	t.Cleanup(func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old)) })
}
