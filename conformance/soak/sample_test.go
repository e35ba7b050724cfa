package soak

import (
	"fmt"
	"io"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

// lockFile opens a file anew and locks bytes of it.
func lockFile(t *testing.T, fd int, at ...int64) int {
	n, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDWR|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(n) })
	for _, a := range at {
		lockByte(t, n, unix.F_WRLCK, a)
	}
	return n
}

func lockByte(t *testing.T, fd int, typ int16, at int64) {
	l := unix.Flock_t{Type: typ, Whence: io.SeekStart, Start: at, Len: 1}
	require.NoError(t, unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &l))
}

// The slots that are taken are counted, each once, and no other lock: whatever else on the machine
// takes and leaves locks meanwhile.
func TestSlotsAreCountedOnce(t *testing.T) {
	fd, err := unix.MemfdCreate("goroce-slots", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	lockFile(t, fd, 0, 64, 5000)
	lockFile(t, fd, 63, 64+63, 6000)
	other, err := unix.MemfdCreate("other", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(other) })
	for i := range int64(20) {
		lockFile(t, other, 2*i)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		churn := lockFile(t, other)
		for i := int64(0); ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			lockByte(t, churn, unix.F_WRLCK, 1000+2*(i%8))
			lockByte(t, churn, unix.F_UNLCK, 1000+2*((i+4)%8))
		}
	}()
	for range 200 {
		_, slots, err := descriptors()
		require.NoError(t, err)
		require.Equal(t, 2, slots)
	}
	close(stop)
	<-stopped
}
