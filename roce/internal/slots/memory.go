package slots

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/goroce/goroce/internal/unix"
)

// The memory file has a word for each slot (lease.go), the numbers of all descriptors (borrow.go),
// and notes of requests (asked.go).

// seals are the changes to the file that are ruled out.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// newMemory makes the file.
func newMemory() (int, error) {
	fd, err := unix.MemfdCreate(memoryName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, unsupported("memfd_create", err)
	}
	if err = unix.Ftruncate(fd, fileBytes); err == nil {
		var key [8]byte
		_, _ = rand.Read(key[:]) // never fails
		_, err = unix.Pwrite(fd, key[:], keyAt)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		unix.Close(fd)
		return -1, unsupported("memory file", err)
	}
	return fd, nil
}

// checkSealed returns an error unless fd is a memory file of the right size that is sealed against
// resizing.
func checkSealed(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil || got&seals != seals ||
		st.Size != fileBytes {
		return errors.New("not a memory file that is sealed")
	}
	return nil
}

// inode returns the inode number of the file or socket behind a descriptor.
func inode(fd int) (uint64, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return uint64(st.Ino), err
}

// writeNumbers writes the numbers of all descriptors to the memory file.
func writeNumbers(fds *[numFDs]int) error {
	b := make([]byte, 0, numFDs*8)
	for _, fd := range fds {
		n, err := inode(fd)
		if err != nil {
			return err
		}
		b = binary.NativeEndian.AppendUint64(b, n)
	}
	_, err := unix.Pwrite(fds[memoryAt], b, numbersAt)
	return err
}

func readNumbers(fd int) (numbers [numFDs]uint64, err error) {
	var b [numFDs * 8]byte
	if n, err := unix.Pread(fd, b[:], numbersAt); err != nil || n != len(b) {
		return numbers, fmt.Errorf("the memory file: %w", errors.Join(err, errors.New("too short")))
	}
	for i := range numbers {
		numbers[i] = binary.NativeEndian.Uint64(b[i*8:])
	}
	return numbers, nil
}
