package programs

import (
	"errors"
	"fmt"
	"os"

	"github.com/goroce/goroce/internal/unix"
)

// terminal is what a user's shell gives a program to read from, where nobody types.
type terminal struct{ master, slave *os.File }

// openTerminal makes a pseudo terminal.
func openTerminal() (*terminal, error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("programs: no terminal: %w", err)
	}
	fd := int(master.Fd())
	err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	n := 0
	if err == nil {
		n, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
	}
	var slave *os.File
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("programs: no terminal: %w", err), master.Close())
	}
	return &terminal{master, slave}, nil
}

// Close ends it: its reader has the end.
func (t *terminal) Close() error { return errors.Join(t.slave.Close(), t.master.Close()) }
