package lab

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// libDirs is where a Debian root keeps its shared libraries.
var libDirs = func() (dirs []string) {
	for _, m := range append(machines, amd64) {
		dirs = append(dirs, m.libs, strings.TrimPrefix(m.libs, "usr/"), m.libs+"/libibverbs")
	}
	return append(dirs, "usr/lib", "lib", "lib64", "usr/lib64")
}()

// libDeps returns the shared libraries (as paths below root) that a program or
// library below root needs, directly or not: what ldd says, without running
// anything, so that another suite's programs can be asked about.
func libDeps(root, file string) ([]string, error) {
	seen := map[string]bool{}
	var out []string
	todo := []string{file}
	for len(todo) > 0 {
		f := todo[0]
		todo = todo[1:]
		e, err := elf.Open(filepath.Join(root, f))
		if err != nil {
			return nil, fmt.Errorf("lab: %s: %w", f, err)
		}
		libs, err := e.ImportedLibraries()
		e.Close()
		if err != nil {
			return nil, fmt.Errorf("lab: %s: %w", f, err)
		}
		for _, l := range libs {
			if seen[l] {
				continue
			}
			seen[l] = true
			p, err := findLib(root, l)
			if err != nil {
				return nil, fmt.Errorf("%w (needed by %s)", err, f)
			}
			out = append(out, p)
			todo = append(todo, p)
		}
	}
	return out, nil
}

func findLib(root, name string) (string, error) {
	for _, d := range libDirs {
		p := filepath.Join(d, name)
		if _, err := os.Stat(filepath.Join(root, p)); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("lab: library %s is in none of the unpacked packages", name)
}

// isELF tells a program from a script.
func isELF(b []byte) bool { return bytes.HasPrefix(b, []byte(elf.ELFMAG)) }

// modinfo returns the values of one key in a kernel module's .modinfo section.
func modinfo(b []byte, key string) ([]string, error) {
	e, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	s := e.Section(".modinfo")
	if s == nil {
		return nil, fmt.Errorf("no .modinfo section")
	}
	d, err := s.Data()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, kv := range strings.Split(string(d), "\x00") {
		if v, ok := strings.CutPrefix(kv, key+"="); ok {
			out = append(out, v)
		}
	}
	return out, nil
}
