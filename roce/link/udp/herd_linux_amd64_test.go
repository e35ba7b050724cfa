package udp

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// waiting returns the thread that waits for events at a descriptor, once there is one.
func waiting(t *testing.T, fd int) (tid int) {
	call := fmt.Sprintf("%d %#x ", syscall.SYS_EPOLL_PWAIT, fd)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); runtime.Gosched() {
		tasks, err := filepath.Glob("/proc/self/task/*/syscall")
		require.NoError(t, err)
		for _, name := range tasks {
			// A thread may have ended.
			if b, err := os.ReadFile(name); err == nil && strings.HasPrefix(string(b), call) {
				tid, err = strconv.Atoi(filepath.Base(filepath.Dir(name)))
				require.NoError(t, err)
				return tid
			} else if os.IsPermission(err) {
				t.Skip("who may not look at system calls cannot interrupt one:", err)
			}
		}
	}
	t.Fatal("nobody waits for requests")
	return 0
}

// A signal does not end the wait for requests.
func TestHerdInterrupted(t *testing.T) {
	p := newPair(t, Options{}, Options{})
	require.NoError(t, p.b.ServeRequests())
	h := &p.b.share.herd
	for range 10 {
		_, _, errno := syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(waiting(t, h.fd)),
			uintptr(syscall.SIGURG))
		require.Zero(t, errno)
	}
	waiting(t, h.fd)
	p.a.Send([]edge.TxPacket{p.message(mad.AttrREQ, (&mad.REQ{LocalCommID: 1, ServiceID: 1, MTU: ib.MTU1024}).Put)})
	for end := time.Now().Add(time.Minute); !h.there.Load(); {
		require.True(t, time.Now().Before(end), "no request was seen")
		require.NoError(t, p.b.Wait(time.Second))
	}
}
