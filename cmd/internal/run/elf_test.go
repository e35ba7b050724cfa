package run

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// program describes an ELF file for tests.
type program struct {
	class   elf.Class // 0: 64 bits
	machine elf.Machine
	interp  string
	dynamic []entry
}

// entry is one of the dynamic section, with a string.
type entry struct {
	tag   elf.DynTag
	value string
}

const glibcLoader = "/lib64/ld-linux-x86-64.so.2"

// build returns the file: headers, the loader's name, and sections for the dynamic entries.
func (p program) build() []byte {
	if p.class == 0 {
		p.class = elf.ELFCLASS64
	}
	if p.machine == 0 {
		p.machine = elf.EM_X86_64
	}
	ident := [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(p.class), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}
	var b bytes.Buffer
	put := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	if p.class == elf.ELFCLASS32 {
		put(elf.Header32{Ident: ident, Type: uint16(elf.ET_DYN), Machine: uint16(p.machine), Version: 1, Ehsize: 52})
		return b.Bytes()
	}
	strings := []byte{0}
	var dynamic []elf.Dyn64
	for _, e := range p.dynamic {
		dynamic = append(dynamic, elf.Dyn64{Tag: int64(e.tag), Val: uint64(len(strings))})
		strings = append(append(strings, e.value...), 0)
	}
	dynamic = append(dynamic, elf.Dyn64{Tag: int64(elf.DT_NULL)})
	const headers, programHeader, sectionHeader = 64, 56, 64
	interpAt := uint64(headers + programHeader)
	stringsAt := interpAt + uint64(len(p.interp)) + 1
	dynamicAt := stringsAt + uint64(len(strings))
	sectionsAt := dynamicAt + uint64(16*len(dynamic))
	h := elf.Header64{
		Ident: ident, Type: uint16(elf.ET_DYN), Machine: uint16(p.machine), Version: 1, Ehsize: headers,
		Phoff: headers, Phentsize: programHeader, Phnum: 1, Shoff: sectionsAt, Shentsize: sectionHeader,
		Shnum: 3, Shstrndx: 1,
	}
	kind := elf.PT_INTERP
	if p.interp == "" {
		kind = elf.PT_NULL
	}
	put(h)
	put(elf.Prog64{Type: uint32(kind), Off: interpAt, Filesz: uint64(len(p.interp)) + 1})
	b.WriteString(p.interp + "\x00")
	b.Write(strings)
	put(dynamic)
	put(elf.Section64{})
	put(elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: stringsAt, Size: uint64(len(strings))})
	put(elf.Section64{Type: uint32(elf.SHT_DYNAMIC), Off: dynamicAt, Size: uint64(16 * len(dynamic)), Link: 1})
	return b.Bytes()
}

// write writes the program to a file that can be run.
func (p program) write(t *testing.T, name string) string {
	t.Helper()
	return writeFile(t, name, p.build(), 0o755)
}

func writeFile(t *testing.T, path string, b []byte, mode os.FileMode) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, b, 0o644))
	require.NoError(t, os.Chmod(path, mode))
	return path
}

// fakeLibraries makes a folder that looks as "make verbs" leaves it.
func fakeLibraries(t *testing.T, dir string) *libraries {
	t.Helper()
	for _, name := range libraryFiles {
		program{}.write(t, filepath.Join(dir, name))
	}
	return &libraries{dir: dir, class: elf.ELFCLASS64, machine: elf.EM_X86_64}
}

// elfOf describes a program of the machine, so that libraries can be made up that fit it.
func elfOf(path string) (program, error) {
	f, err := elf.Open(path)
	if err != nil {
		return program{}, err
	}
	defer f.Close()
	interp, err := interpreterOf(f)
	return program{class: f.Class, machine: f.Machine, interp: interp}, err
}
