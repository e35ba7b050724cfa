// Package bind binds sockets to ports that may be taken for a moment longer.
//
// A process that is being forked has copies of all descriptors of this one until it runs
// its program. So a port whose socket was just closed may still be taken: closing one link and
// opening another at the same address fails, if a command is started meanwhile.
package bind

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// patience is how long a port may be taken. A fork is over in a few milliseconds, on a
	// busy machine in some tens.
	patience = 250 * time.Millisecond
	retry    = time.Millisecond
)

// Bind binds a socket. It waits a little for an address that is in use.
func Bind(fd int, sa unix.Sockaddr) error {
	end := time.Now().Add(patience)
	return again(func() error { return unix.Bind(fd, sa) }, func() bool {
		time.Sleep(retry)
		return time.Now().Before(end)
	})
}

// again calls f until it has another outcome than EADDRINUSE, or wait returns false.
func again(f func() error, wait func() bool) error {
	err := f()
	for err == unix.EADDRINUSE && wait() {
		err = f()
	}
	return err
}
