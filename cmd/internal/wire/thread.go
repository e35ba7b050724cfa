package wire

import (
	"runtime"

	"github.com/goroce/goroce/internal/unix"
)

// onThread runs f on a thread that ends with it, whatever namespace it is in by then.
func onThread(f func() error) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so that the thread is not used again
		if unix.Gettid() == unix.Getpid() {
			err = onThread(f) // the main thread never ends
			runtime.UnlockOSThread()
			return
		}
		err = f()
	}()
	<-done
	return err
}
