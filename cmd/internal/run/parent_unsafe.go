package run

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/goroce/goroce/internal/unix"
)

// Of prctl(2).
const (
	prSetPdeathsig = 1
	prGetPdeathsig = 2
)

// atParentsDeath is the signal that this program's parent wants it to get when the parent dies
// (setpriv --pdeathsig), and parent is who that is. The kernel keeps the signal with a thread: that
// of the main function, by which packages are initialized.
var atParentsDeath, parent = parentDeathSignal()

func parentDeathSignal() (int, int) {
	var sig int32
	if unix.Prctl(prGetPdeathsig, uintptr(unsafe.Pointer(&sig)), 0, 0, 0) != nil {
		return 0, 0
	}
	return int(sig), os.Getppid()
}

// become executes a program in the place of this one. Any thread may do that, and the program has
// what is that thread's.
func become(path string, argv, environ []string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if atParentsDeath != 0 {
		if err := unix.Prctl(prSetPdeathsig, uintptr(atParentsDeath), 0, 0, 0); err != nil {
			return err
		}
		if os.Getppid() != parent { // it has died before
			if err := unix.Kill(os.Getpid(), syscall.Signal(atParentsDeath)); err != nil {
				return err
			}
		}
	}
	return syscall.Exec(path, argv, environ)
}
