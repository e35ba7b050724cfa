package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

// file is a file of a package: its path without a leading slash, and what is in it.
type file struct {
	name    string
	program bool // or a library: what is executable
	data    []byte
}

func (f file) mode() int64 {
	if f.program {
		return 0o755
	}
	return 0o644
}

// tarball packs files and the folders above them below prefix ("" or "./" or "name/"), by name, as
// root's, all of one time.
func tarball(prefix string, files []file, when time.Time) ([]byte, error) {
	type entry struct {
		file
		dir bool
	}
	entries := map[string]entry{}
	for _, f := range files {
		name := prefix + f.name
		if _, twice := entries[name]; twice {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		entries[name] = entry{file: f}
		for d := path.Dir(f.name); ; d = path.Dir(d) {
			at := prefix + d + "/"
			if d == "." {
				at = prefix
			}
			if at != "" {
				entries[at] = entry{dir: true}
			}
			if d == "." {
				break
			}
		}
	}
	names := make([]string, 0, len(entries))
	for n := range entries {
		names = append(names, n)
	}
	slices.Sort(names)
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression) // its header has neither name nor time
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(z)
	for _, n := range names {
		e := entries[n]
		h := &tar.Header{Name: n, ModTime: when, Uname: "root", Gname: "root", Format: tar.FormatGNU}
		if e.dir {
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		} else {
			h.Typeflag, h.Mode, h.Size = tar.TypeReg, e.mode(), int64(len(e.data))
		}
		if err := t.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := t.Write(e.data); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	err = z.Close()
	return b.Bytes(), err
}

// zipped is data as gzip without a name or time.
func zipped(data []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	err = z.Close()
	return b.Bytes(), err
}

// deb is a package for dpkg: an archive of ar with the format's version, control.tar.gz and
// data.tar.gz (deb(5)).
func deb(control string, files []file, when time.Time) ([]byte, error) {
	var sums strings.Builder
	for _, f := range files {
		fmt.Fprintf(&sums, "%s  %s\n", md5sum(f.data), f.name)
	}
	meta, err := tarball("./",
		[]file{{name: "control", data: []byte(control)}, {name: "md5sums", data: []byte(sums.String())}}, when)
	if err != nil {
		return nil, err
	}
	data, err := tarball("./", files, when)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	for _, m := range []struct {
		name string
		data []byte
	}{{"debian-binary", []byte("2.0\n")}, {"control.tar.gz", meta}, {"data.tar.gz", data}} {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", m.name, when.Unix(), 0, 0, "100644", len(m.data))
		b.Write(m.data)
		if len(m.data)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes(), nil
}

// control is the control file of the package.
func control(version, arch, glibc string, files []file) string {
	var size int
	for _, f := range files {
		size += len(f.data)
	}
	var b strings.Builder
	io.WriteString(&b, "Package: goroce\n")
	fmt.Fprintf(&b, "Version: %s\nArchitecture: %s\nInstalled-Size: %d\nDepends: libc6 (>= %s)\n",
		debVersion(version), arch, (size+1023)/1024, glibc)
	io.WriteString(&b, `Suggests: ibverbs-utils, perftest, rdmacm-utils
Section: net
Priority: optional
Maintainer: the goroce authors <goroce@users.noreply.github.com>
Homepage: https://github.com/goroce/goroce
Description: RDMA over Converged Ethernet (RoCE v2) in user space
 Runs programs that are written for libibverbs and librdmacm where there is no
 RDMA device, kernel module or privilege: "roce run -- ib_write_bw". The packets
 are RoCE v2 over UDP, as those of rdma_rxe and of network cards.
 .
 The libraries are in a folder of their own, /usr/lib/goroce: they replace none
 of the system's, and only programs that "roce run" starts have them.
`)
	return b.String()
}

// debVersion is a version as dpkg orders it: what comes before a release (v1.2.3-0.2026...,
// v1.2.3-rc.1) is older than it.
func debVersion(v string) string {
	return strings.ReplaceAll(strings.TrimPrefix(v, "v"), "-", "~")
}
