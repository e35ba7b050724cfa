package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// oldestGlibc is the C library that the packages run on: that of Debian 11. Ubuntu 20.04 has it,
// too; RHEL 9 has 2.34.
const oldestGlibc = "2.31"

// systemLibraries are those of other packages that ours may ask for: the C library's, on any
// machine that has one.
var systemLibraries = []string{"libc.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libresolv.so.2",
	"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}

// checkSymbols returns the newest version of the C library of which an ELF file needs a symbol (""
// for a static one), and an error if that is newer than limit, or if the file asks for a library
// that is neither the C library nor in own.
func checkSymbols(name string, data []byte, limit string, own []string) (newest string, err error) {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	for _, l := range libraries {
		if !slices.Contains(systemLibraries, l) && !slices.Contains(own, l) {
			return "", fmt.Errorf("%s needs %s, which is in neither the package nor the C library", name, l)
		}
	}
	if len(libraries) == 0 {
		return "", nil
	}
	symbols, err := f.ImportedSymbols()
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	var bad []string
	for _, s := range symbols {
		v, ok := strings.CutPrefix(s.Version, "GLIBC_")
		if !ok {
			continue
		}
		if compareVersions(v, newest) > 0 {
			newest = v
		}
		if compareVersions(v, limit) > 0 {
			bad = append(bad, s.Name+"@"+s.Version)
		}
	}
	if len(bad) > 0 {
		slices.Sort(bad)
		return newest, fmt.Errorf("%s needs a C library newer than %s: %s", name, limit, strings.Join(bad, ", "))
	}
	return newest, nil
}

// compareVersions orders versions of numbers with dots: 2.4 is older than 2.31. What is no number
// (GLIBC_PRIVATE, which nobody may use) is newer than all.
func compareVersions(a, b string) int {
	x, y := numbers(a), numbers(b)
	return slices.Compare(x, y)
}

func numbers(v string) (parts []int) {
	if v == "" {
		return nil
	}
	for p := range strings.SplitSeq(v, ".") {
		n, err := strconv.Atoi(p)
		if err != nil {
			n = 1 << 30
		}
		parts = append(parts, n)
	}
	return parts
}
