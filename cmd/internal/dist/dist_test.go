package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var testTime = time.Unix(1700000000, 0)

var testFiles = []file{
	{name: "usr/bin/b", program: true, data: []byte("program")},
	{name: "usr/bin/a", data: []byte("text")},
}

func TestTarball(t *testing.T) {
	b, err := tarball("./", testFiles, testTime)
	require.NoError(t, err)
	reversed, err := tarball("./", []file{testFiles[1], testFiles[0]}, testTime)
	require.NoError(t, err)
	require.Equal(t, b, reversed, "the order of the files does not matter")
	z, err := gzip.NewReader(bytes.NewReader(b))
	require.NoError(t, err)
	require.True(t, z.ModTime.IsZero())
	var names []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		names = append(names, h.Name)
		require.Equal(t, testTime.Unix(), h.ModTime.Unix())
		require.Zero(t, h.Uid+h.Gid)
		require.Equal(t, "root root", h.Uname+" "+h.Gname)
		want := int64(0o755)
		if h.Name == "./usr/bin/a" {
			want = 0o644
		}
		require.Equal(t, want, h.Mode, h.Name)
	}
	require.Equal(t, []string{"./", "./usr/", "./usr/bin/", "./usr/bin/a", "./usr/bin/b"}, names)
	_, err = tarball("", append(testFiles, testFiles[0]), testTime)
	require.ErrorContains(t, err, "twice")
}

// dpkg-deb takes the package for one.
func TestDeb(t *testing.T) {
	dpkg, err := exec.LookPath("dpkg-deb")
	if err != nil {
		t.Skip("no dpkg-deb here")
	}
	b, err := deb(control("v1.2.3-rc.1", "amd64", "2.31", testFiles), testFiles, testTime)
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "x.deb")
	require.NoError(t, os.WriteFile(name, b, 0o644))
	for _, c := range []struct{ args, want string }{
		{"--field NAME Version", "1.2.3~rc.1\n"},
		{"--field NAME Depends", "libc6 (>= 2.31)\n"},
		{"--contents NAME", "-rwxr-xr-x root/root"},
	} {
		out, err := exec.Command(dpkg, strings.Fields(strings.ReplaceAll(c.args, "NAME", name))...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), c.want)
	}
}

// imports is an ELF library that asks for others and for symbols of versions: what the check reads
// of one, and no more.
func imports(t *testing.T, needed, symbol, version string) []byte {
	t.Helper()
	cc, err := exec.LookPath("gcc")
	if err != nil || runtime.GOARCH != "amd64" {
		t.Skip("no gcc for this machine")
	}
	dir := t.TempDir()
	// A library that has the symbol in that version, in place of the C library.
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
		return name
	}
	script := write("map", version+" { global: "+symbol+"; local: *; };")
	lib := filepath.Join(dir, needed)
	out, err := exec.Command(cc, "-shared", "-nostdlib", "-fPIC", "-Wl,-soname,"+needed,
		"-Wl,--version-script="+script, "-o", lib, write("lib.c", "void "+symbol+"(void) {}")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	user := filepath.Join(dir, "user.so")
	out, err = exec.Command(cc, "-shared", "-nostdlib", "-fPIC", "-o", user,
		write("user.c", "void "+symbol+"(void); void f(void) { "+symbol+"(); }"), lib).CombinedOutput()
	require.NoError(t, err, "%s", out)
	b, err := os.ReadFile(user)
	require.NoError(t, err)
	return b
}

func TestCheckSymbols(t *testing.T) {
	for _, c := range []struct {
		needed, version string
		newest, fails   string
	}{
		{"libc.so.6", "GLIBC_2.4", "2.4", ""},
		{"libc.so.6", "GLIBC_2.31", "2.31", ""},
		{"libc.so.6", "GLIBC_2.34", "2.34", "x needs a C library newer than 2.31: fun@GLIBC_2.34"},
		{"libc.so.6", "GLIBC_PRIVATE", "PRIVATE", "fun@GLIBC_PRIVATE"},
		{"libnuma.so.1", "GLIBC_2.4", "", "x needs libnuma.so.1"},
		{"libgoroce.so", "GOROCE_1", "", ""},
	} {
		newest, err := checkSymbols("x", imports(t, c.needed, "fun", c.version), "2.31", []string{"libgoroce.so"})
		require.Equal(t, c.newest, newest, c)
		if c.fails == "" {
			require.NoError(t, err, c)
		} else {
			require.ErrorContains(t, err, c.fails)
		}
	}
	_, err := checkSymbols("x", binary.LittleEndian.AppendUint32(nil, 5), "2.31", nil)
	require.Error(t, err, "no ELF file")
	self, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	_, err = checkSymbols("x", self, "99", []string{"libresolv.so.2"})
	require.NoError(t, err)
}

func TestVersions(t *testing.T) {
	hash := "0123456789abcdef0123"
	for _, c := range []struct {
		c    commit
		want string
	}{
		{commit{tag: "v1.2.3", tagged: true}, "v1.2.3"},
		{commit{tag: "v1.2.3", tagged: true, changed: true}, "v1.2.3+dirty"},
		{commit{tag: "v1.2.3"}, "v1.2.4-0.20231114221320-0123456789ab"},
		{commit{tag: "v1.2.3-rc.1"}, "v1.2.3-rc.1.0.20231114221320-0123456789ab"},
		{commit{}, "v0.0.0-20231114221320-0123456789ab"},
	} {
		c.c.hash, c.c.when = hash, testTime
		require.Equal(t, c.want, c.c.version())
	}
	require.Equal(t, "1.2.4~0.20231114221320~0123456789ab", debVersion("v1.2.4-0.20231114221320-0123456789ab"))
	require.Negative(t, compareVersions("2.4", "2.31"))
	require.Positive(t, compareVersions("2.31.1", "2.31"))
	require.Zero(t, compareVersions("2.31", "2.31"))
}

func TestManuals(t *testing.T) {
	pages, err := manuals("v1.2.3", testTime)
	require.NoError(t, err)
	require.Contains(t, pages, "roce.1")
	require.Contains(t, pages["roce-write_bw.1"], `\-\-size=<bytes>`)
	require.Contains(t, pages["roce-write_bw.1"], ".SH OPTIONS\n")
	require.Equal(t, `\&.x\-\e`, escape(`.x-\`))
	for name, text := range pages {
		require.True(t, strings.HasPrefix(text, ".TH ROCE"), name)
		require.Equal(t, strings.Count(text, "\n.nf\n"), strings.Count(text, "\n.fi\n"), name)
	}
}

func TestLicenses(t *testing.T) {
	for text, want := range map[string]string{
		"Apache License\n   Version 2.0, January 2004": "Apache-2.0",
		"MIT License\nPermission is hereby granted, free of charge, to any person obtaining a copy\nof this software and associated documentation files (the": "MIT",
	} {
		got, err := licenseOf([]string{text})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := licenseOf([]string{"You may do with it what my lawyer says."})
	require.Error(t, err)
}

func TestBill(t *testing.T) {
	all := []component{{path: "example.com/a", version: "v1.0.0", sum: "h1:x", license: "MIT"}}
	b, err := bill("v1.2.3", all, testFiles, testTime)
	require.NoError(t, err)
	again, err := bill("v1.2.3", all, testFiles, testTime)
	require.NoError(t, err)
	require.Equal(t, b, again)
	var doc struct {
		SPDXVersion string `json:"spdxVersion"`
		Packages    []struct{ Name string }
		Files       []struct{ FileName string }
	}
	require.NoError(t, json.Unmarshal(b, &doc))
	require.Equal(t, "SPDX-2.3", doc.SPDXVersion)
	require.Len(t, doc.Packages, 2)
	require.Equal(t, "./usr/bin/b", doc.Files[0].FileName)
}

// A tag whose release the changelog does not know makes no release.
func TestNotes(t *testing.T) {
	t.Chdir("../../..")
	require.NoError(t, notesOf("v0.1.0"))
	require.NoError(t, notesOf("v9.9.9-0.20231114221320-0123456789ab"))
	require.ErrorContains(t, notesOf("v9.9.9"), "CHANGELOG.md has no section v9.9.9")
}

// fromUnistd is a call, or a constant, of unistd.h.
var fromUnistd = regexp.MustCompile(`(?m)^[^/*\n]*(?:^|[^A-Za-z0-9_.>"])` +
	`(sysconf|_exit|getpid|gettid|getuid|geteuid|dup[23]?|close|read|write|fork|pipe2?|unlink|ftruncate|` +
	`pread|pwrite|syscall|readlink|access|lseek|execve?)\(`)

// The libraries are built with the headers of Debian 11, which include less of each other than
// those of today: a file that calls what unistd.h declares includes it.
func TestIncludesUnistd(t *testing.T) {
	require.Equal(t, "sysconf", fromUnistd.FindStringSubmatch("\tint e = f(p, (size_t)sysconf(_SC_PAGESIZE));")[1])
	files, err := filepath.Glob("../../verbs/*/*.[ch]")
	require.NoError(t, err)
	require.Greater(t, len(files), 40)
	for _, name := range files {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		if !bytes.Contains(b, []byte("#include <unistd.h>")) {
			require.Empty(t, fromUnistd.FindSubmatch(b), name)
		}
	}
}
