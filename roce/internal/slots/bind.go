package slots

import (
	"time"

	"github.com/goroce/goroce/internal/unix"
)

const (
	// bindPatience bounds the wait for a port that is taken. A fork is over in a few milliseconds,
	// on a busy machine in some tens.
	bindPatience = 250 * time.Millisecond
	bindRetry    = time.Millisecond
)

// Bind binds a socket. It waits a little for an address that is in use.
//
// A process that is being forked has copies of all descriptors of this one until it runs its
// program. So a port may still be taken just after its socket was closed. Without the wait, closing
// one link and opening another at the same address would fail if a command were started in between.
func Bind(fd int, sa unix.Sockaddr) error {
	end := time.Now().Add(bindPatience)
	return bindAgain(func() error { return unix.Bind(fd, sa) }, func() bool {
		time.Sleep(bindRetry)
		return time.Now().Before(end)
	})
}

// bindAgain calls f until its result is not EADDRINUSE, or wait returns false.
func bindAgain(f func() error, wait func() bool) error {
	err := f()
	for err == unix.EADDRINUSE && wait() {
		err = f()
	}
	return err
}
