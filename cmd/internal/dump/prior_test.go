package dump

import (
	"runtime"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

// The thread of a capture goes before others, where that is permitted, and is as it was afterwards.
func TestFirst(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	nice := func() int {
		raw, err := unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid())
		require.NoError(t, err)
		return niceOf(raw)
	}
	before := nice()
	undo := first()
	during := nice()
	undo()
	require.Equal(t, before, nice())
	if during == before {
		t.Skip("a higher priority needs CAP_SYS_NICE")
	}
	require.Equal(t, captureNice, during)
}
