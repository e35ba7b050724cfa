package run

import (
	"bufio"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/goroce/goroce/internal/unix"
)

// lookPath finds a program as a shell does, also in the current folder if PATH says so.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		err = nil
	}
	return path, err
}

// identity is who runs the program.
type identity struct{ uid, gid, realUID, realGID int }

// maxInterpreters is how many scripts may interpret each other, as in the kernel.
const maxInterpreters = 5

// checkProgram says why a program cannot run on the libraries: the loader would leave them out
// without a word.
func checkProgram(path string, libs *libraries, who identity) error {
	for range maxInterpreters {
		interpreter, err := checkFile(path, libs, who)
		if err != nil || interpreter == "" {
			return err
		}
		path = interpreter
	}
	return fmt.Errorf("%s: too many scripts that interpret each other", path)
}

// checkFile checks one file; for a script it returns the interpreter.
func checkFile(path string, libs *libraries, who identity) (interpreter string, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return "", nil // it may be run all the same, and whether it works cannot be known
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, 256) // the kernel looks at no more
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return "", err
	}
	head = head[:n]
	switch {
	case bytes.HasPrefix(head, []byte("#!")):
		line, _, _ := bufio.ScanLines(head[2:], true)
		words := strings.Fields(string(head[2 : 2+line]))
		if len(words) == 0 {
			return "", fmt.Errorf("%s has no interpreter behind its #! mark", path)
		}
		return words[0], nil // a set-user-ID bit of a script has no effect
	case !bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		return "", fmt.Errorf("%s is no ELF program, and no script: those begin with #! and their interpreter", path)
	}
	if err := checkPrivileged(f, path, who); err != nil {
		return "", err
	}
	e, err := elf.NewFile(f)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return "", checkELF(e, path, libs)
}

// checkPrivileged refuses programs that get more rights than who starts them has: the loader then
// ignores the environment.
func checkPrivileged(f *os.File, path string, who identity) error {
	i, err := f.Stat()
	if err != nil {
		return err
	}
	uid, gid, ok := unix.Owner(i)
	if !ok {
		return nil
	}
	const advice = ": run a copy of it without (cp does that)"
	switch {
	case i.Mode()&fs.ModeSetuid != 0 && uid != who.realUID || who.uid != who.realUID:
		return fmt.Errorf("%s is set-user-ID, for which the loader ignores LD_LIBRARY_PATH"+advice, path)
	case i.Mode()&fs.ModeSetgid != 0 && i.Mode()&0o010 != 0 && gid != who.realGID || who.gid != who.realGID:
		return fmt.Errorf("%s is set-group-ID, for which the loader ignores LD_LIBRARY_PATH"+advice, path)
	case who.realUID != 0 && hasCapabilities(f):
		return fmt.Errorf("%s has file capabilities, for which the loader ignores LD_LIBRARY_PATH"+advice, path)
	}
	return nil
}

func hasCapabilities(f *os.File) bool {
	n, err := unix.Fgetxattr(int(f.Fd()), "security.capability", nil)
	return err == nil && n > 0
}

// checkELF refuses programs that the libraries cannot be loaded into.
func checkELF(e *elf.File, path string, libs *libraries) error {
	if e.Class != libs.class || e.Machine != libs.machine {
		return fmt.Errorf("%s is a program for %s, the libraries are for %s", path,
			kindName(e.Class, e.Machine), kindName(libs.class, libs.machine))
	}
	loader, err := interpreterOf(e)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	switch {
	case loader == "" && isLoader(e):
		return nil // the loader itself, told to run a program
	case loader == "":
		return fmt.Errorf("%s is statically linked: nothing loads libraries into it", path)
	case strings.HasPrefix(filepath.Base(loader), "ld-musl"):
		return fmt.Errorf("%s is a program for musl (%s), the libraries are for glibc", path, loader)
	}
	return checkRPath(e, path, libs)
}

// interpreterOf returns the loader that a program names; "" if it names none.
func interpreterOf(e *elf.File) (string, error) {
	for _, p := range e.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		b := make([]byte, min(p.Filesz, unix.PathMax))
		if _, err := p.ReadAt(b, 0); err != nil {
			return "", fmt.Errorf("its loader's name: %w", err)
		}
		name, _, _ := bytes.Cut(b, []byte{0})
		return string(name), nil
	}
	return "", nil
}

// isLoader reports whether this is glibc's loader, which can be run as a program.
func isLoader(e *elf.File) bool {
	names, err := e.DynString(elf.DT_SONAME)
	return err == nil && len(names) == 1 && strings.HasPrefix(names[0], "ld-linux")
}

// checkRPath refuses programs with an RPATH that leads to another libibverbs: it comes before
// LD_LIBRARY_PATH. (The newer RUNPATH, with which there is no RPATH, comes after it.)
func checkRPath(e *elf.File, path string, libs *libraries) error {
	if runpath, err := e.DynString(elf.DT_RUNPATH); err != nil || len(runpath) > 0 {
		return nil
	}
	rpath, err := e.DynString(elf.DT_RPATH)
	if err != nil {
		return nil
	}
	origin := filepath.Dir(resolved(path))
	for _, dirs := range rpath {
		for dir := range strings.SplitSeq(dirs, ":") {
			dir = strings.NewReplacer("${ORIGIN}", origin, "$ORIGIN", origin).Replace(dir)
			if filepath.Clean(dir) == libs.dir {
				return nil
			}
			for _, name := range libraryFiles[:2] {
				other := filepath.Join(dir, name)
				if _, err := os.Stat(other); dir != "" && err == nil {
					return fmt.Errorf("%s has an RPATH, which leads to %s before LD_LIBRARY_PATH counts: remove it with \"patchelf --remove-rpath\"", path, other)
				}
			}
		}
	}
	return nil
}

// kindName names a kind of processor.
func kindName(c elf.Class, m elf.Machine) string {
	bits := "32 bits"
	if c == elf.ELFCLASS64 {
		bits = "64 bits"
	}
	return fmt.Sprintf("%s (%s)", strings.TrimPrefix(m.String(), "EM_"), bits)
}
