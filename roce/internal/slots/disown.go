package slots

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/processes"
)

// Disown closes the child's copies of its parent's addresses after a fork. The parent's leases and
// services end with the last copy of their file, so they would otherwise outlive the parent, and a
// device of the child could not have them. Disown is for a process that has opened no device
// itself.
func Disown() error {
	const self = "/proc/self/fd"
	list, err := os.ReadDir(self)
	if err != nil {
		return err
	}
	at := map[int]string{}
	numbers := map[string]bool{}
	for _, f := range list {
		fd, err := strconv.Atoi(f.Name())
		if err != nil {
			continue
		}
		target, _ := os.Readlink(filepath.Join(self, f.Name())) // "" for the descriptor of the directory itself
		at[fd] = target
		if !isMemory(target) || checkSealed(fd) != nil {
			continue
		}
		if of, err := readNumbers(fd); err == nil {
			for _, n := range of {
				numbers[processes.Socket(n)] = true
			}
		}
	}
	for fd, target := range at {
		if isMemory(target) || numbers[target] {
			unix.Close(fd)
		}
	}
	return nil
}

// isMemory reports whether target is the kernel's name for a memory file of this package.
func isMemory(target string) bool { return strings.HasPrefix(target, "/memfd:"+memoryName) }
