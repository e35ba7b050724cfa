package udp

import (
	"net/netip"
	"runtime"
	"syscall"
	"testing"

	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/stretchr/testify/require"
)

// Where a filter forbids what a link needs, it does not open, and says which call that is and what
// helps. Without a look before, it would open and then fail, or wait for ever.
func TestForbiddenCalls(t *testing.T) {
	for _, c := range []linktest.SystemCall{
		{Name: "sendmmsg", Number: 307}, {Name: "recvmmsg", Number: 299},
		{Name: "ppoll", Number: syscall.SYS_PPOLL}, {Name: "timerfd_settime", Number: syscall.SYS_TIMERFD_SETTIME},
		{Name: "timerfd_create", Number: syscall.SYS_TIMERFD_CREATE}, {Name: "eventfd", Number: 290},
		linktest.Option("setsockopt IP_RECVTTL", syscall.IPPROTO_IP, syscall.IP_RECVTTL),
	} {
		for _, errno := range []syscall.Errno{syscall.EPERM, syscall.ENOSYS} {
			var unfit, err error
			done := make(chan bool)
			go func() {
				defer close(done)
				runtime.LockOSThread() // and not unlocked: the thread ends with its filter
				if unfit = linktest.Fail(c, errno); unfit == nil {
					_, err = Open([]netip.Addr{loopback()}, Options{})
				}
			}()
			<-done
			if unfit != nil {
				t.Skip("no seccomp filters here:", unfit)
			}
			var oe *OpenError
			require.ErrorAs(t, err, &oe, c.Name)
			require.ErrorIs(t, oe, errno)
			require.Contains(t, oe.Error(), c.Name+": ")
			require.Contains(t, oe.Hint, "has to permit it")
		}
	}
}
