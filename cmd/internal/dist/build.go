package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goroce/goroce/cmd/internal/cli"
	"github.com/goroce/goroce/conformance/lab"
)

// machine is a kind of machine that there are packages for.
type machine struct {
	arch   string // as Go and Debian call it
	prefix string // of the names of compiler and binutils
	libc   string // the version that all symbols of its C library had first
}

var machines = map[string]machine{
	"amd64": {"amd64", "x86_64-linux-gnu-", "GLIBC_2.2.5"},
	"arm64": {"arm64", "aarch64-linux-gnu-", "GLIBC_2.17"},
}

// libraryFiles are what "make verbs" makes for "roce run".
var libraryFiles = []string{"goroce_will", "libgoroce.so", "libgoroce_hook.so", "libibverbs.so",
	"libibverbs.so.1", "librdmacm.so", "librdmacm.so.1", "librspreload.so"}

// sysrootRecipe changes with the packages below.
const sysrootRecipe = 1

// sysroot is a folder with the C library to build against, and the headers of rdma-core whose
// binary interface the libraries have.
func (m machine) sysroot(ctx context.Context) (string, error) {
	return lab.PrepareSysroot(ctx, "sysroot-"+m.arch, m.arch, sysrootRecipe, map[string][]string{
		"bullseye": {"libc6", "libc6-dev"},
		"bookworm": {"linux-libc-dev", "libibverbs-dev", "librdmacm-dev"},
	}, logf)
}

// build makes all files of the release from the checkout in source.
func (r *release) build(ctx context.Context, source string, environ []string) ([]file, error) {
	source, err := filepath.Abs(source)
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "goroce-dist-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	b := &builder{release: r, source: source, tmp: tmp, environ: append(slices.Clone(environ),
		"GOFLAGS=-mod=readonly", "GOWORK=off", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0",
		"CGO_CFLAGS=-O2", fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.when.Unix()))}
	var built, out []file
	perMachine := map[string][]file{}
	for _, m := range r.machines {
		files, err := b.programs(ctx, m)
		if err != nil {
			return nil, err
		}
		perMachine[m.arch] = files
		for _, f := range files {
			built = append(built, file{name: m.arch + "/" + f.name, program: true, data: f.data})
		}
	}
	shared, err := b.shared(ctx, built)
	if err != nil {
		return nil, err
	}
	for _, m := range r.machines {
		packed, err := r.pack(m, perMachine[m.arch], shared)
		if err != nil {
			return nil, err
		}
		out = append(out, packed...)
	}
	out = append(out, file{name: "goroce-" + r.version + ".spdx.json", data: shared.bill})
	slices.SortFunc(out, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var sums strings.Builder
	for _, f := range out {
		fmt.Fprintf(&sums, "%s  %s\n", sha256sum(f.data), f.name)
	}
	return append(out, file{name: "SHA256SUMS", data: []byte(sums.String())}), nil
}

// builder builds from one checkout.
type builder struct {
	*release
	source, tmp string
	environ     []string
}

// programs builds roce and the libraries for a machine: bin/roce and lib/goroce/*.
func (b *builder) programs(ctx context.Context, m machine) ([]file, error) {
	logf("roce for %s", m.arch)
	roce := filepath.Join(b.tmp, m.arch, "roce")
	stamp := "-s -w -buildid= -X " + modulePath + "/cmd/internal/cli.version=" + b.version
	err := b.command(ctx, b.source, []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + m.arch}, goTool(),
		"build", "-trimpath", "-buildvcs=false", "-ldflags="+stamp, "-o", roce, "./cmd/roce")
	if err != nil {
		return nil, err
	}
	root, err := m.sysroot(ctx)
	if err != nil {
		return nil, err
	}
	libs := filepath.Join(b.tmp, m.arch, "verbs")
	if err := b.libraries(ctx, m, root, libs, libraryFiles); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(roce)
	if err != nil {
		return nil, err
	}
	files := []file{{name: "bin/roce", program: true, data: data}}
	for _, f := range libraryFiles {
		path := filepath.Join(libs, f)
		if err := b.command(ctx, b.source, nil, m.prefix+"strip", "--strip-unneeded", path); err != nil {
			return nil, err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: "lib/goroce/" + f, program: true, data: data})
	}
	return files, nil
}

// compile builds what is in C and nothing else: the part that another machine's headers break.
func (r *release) compile(ctx context.Context) error {
	tmp, err := os.MkdirTemp("", "goroce-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	source, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	b := &builder{release: r, source: source, tmp: tmp, environ: os.Environ()}
	inC := slices.DeleteFunc(slices.Clone(libraryFiles), func(f string) bool { return f == "libgoroce.so" })
	for _, m := range r.machines {
		root, err := m.sysroot(ctx)
		if err != nil {
			return err
		}
		if err := b.libraries(ctx, m, root, filepath.Join(tmp, m.arch), inC); err != nil {
			return err
		}
	}
	return nil
}

// libraries builds files of libraryFiles into a folder.
func (b *builder) libraries(ctx context.Context, m machine, root, libs string, files []string) error {
	logf("the libraries for %s", m.arch)
	// -B, or a compiler for its own kind of machine finds the start files and the C library of this
	// system first.
	cc := m.prefix + "gcc --sysroot=" + root + " -B" +
		filepath.Join(root, "usr", "lib", strings.TrimSuffix(m.prefix, "-"))
	args := []string{"-C", filepath.Join(b.source, "cmd", "verbs"), "OUT=" + libs, "GO=" + goTool(),
		"CC=" + cc, "LIBC=" + m.libc, "CFLAGS=-O2 -ffile-prefix-map=" + b.source + "=/goroce",
		"CORE_STAMP=-s -w -buildid="}
	for _, f := range files {
		args = append(args, filepath.Join(libs, f))
	}
	return b.command(ctx, b.source, []string{"CGO_ENABLED=1", "GOOS=linux", "GOARCH=" + m.arch, "CC=" + cc},
		"make", args...)
}

// shared is what the packages of all machines have.
type shared struct {
	pages   map[string]string // man pages
	notices string            // the licences of what is linked in
	bill    []byte
	license []byte
	changes []byte
}

func (b *builder) shared(ctx context.Context, built []file) (*shared, error) {
	var s shared
	var err error
	if s.pages, err = manuals(b.version, b.when); err != nil {
		return nil, err
	}
	if s.license, err = os.ReadFile(filepath.Join(b.source, "LICENSE")); err != nil {
		return nil, err
	}
	if s.changes, err = os.ReadFile(filepath.Join(b.source, "CHANGELOG.md")); err != nil {
		return nil, err
	}
	var ofGo []file
	for _, f := range built {
		if strings.HasSuffix(f.name, "/roce") || strings.HasSuffix(f.name, "/libgoroce.so") {
			ofGo = append(ofGo, f)
		}
	}
	all, err := components(ofGo)
	if err != nil {
		return nil, err
	}
	for i := range all {
		dir, err := b.moduleDir(ctx, all[i])
		if err != nil {
			return nil, err
		}
		if err := all[i].readLicense(dir); err != nil {
			return nil, err
		}
	}
	s.notices = notices(all)
	s.bill, err = bill(b.version, all, built, b.when)
	return &s, err
}

// pack makes the files of the release for one machine: the static program by itself, the tarball
// and the package for dpkg.
func (r *release) pack(m machine, programs []file, s *shared) ([]file, error) {
	var own []string
	glibc := ""
	for _, f := range programs {
		own = append(own, filepath.Base(f.name))
	}
	for _, f := range programs {
		newest, err := checkSymbols(m.arch+": "+f.name, f.data, oldestGlibc, own)
		if err != nil {
			return nil, err
		}
		if f.name == "bin/roce" && newest != "" {
			return nil, fmt.Errorf("%s: %s is not static", m.arch, f.name)
		}
		if compareVersions(newest, glibc) > 0 {
			glibc = newest
		}
	}
	logf("%s: the libraries run with a C library of version %s and later", m.arch, glibc)
	tree := slices.Clone(programs)
	packaged := slices.Clone(programs)
	for name, text := range s.pages {
		z, err := zipped([]byte(text))
		if err != nil {
			return nil, err
		}
		tree = append(tree, file{name: "share/man/man1/" + name, data: []byte(text)})
		packaged = append(packaged, file{name: "share/man/man1/" + name + ".gz", data: z})
	}
	bash := file{name: "share/bash-completion/completions/roce", data: []byte(cli.Bash)}
	zsh := []byte(cli.Zsh)
	changes, err := zipped(s.changes)
	if err != nil {
		return nil, err
	}
	tree = append(tree, bash, file{name: "share/zsh/site-functions/_roce", data: zsh},
		file{name: "share/doc/goroce/LICENSE", data: s.license},
		file{name: "share/doc/goroce/NOTICES", data: []byte(s.notices)},
		file{name: "share/doc/goroce/CHANGELOG.md", data: s.changes},
		file{name: "share/doc/goroce/goroce.spdx.json", data: s.bill})
	packaged = append(packaged, bash, file{name: "share/zsh/vendor-completions/_roce", data: zsh},
		file{name: "share/doc/goroce/copyright",
			data: []byte("goroce, https://github.com/goroce/goroce\n\n" + string(s.license) + "\n\n" + s.notices)},
		file{name: "share/doc/goroce/changelog.gz", data: changes},
		file{name: "share/doc/goroce/goroce.spdx.json", data: s.bill})
	for i := range packaged {
		packaged[i].name = "usr/" + packaged[i].name
	}
	byName := func(a, b file) int { return strings.Compare(a.name, b.name) }
	slices.SortFunc(packaged, byName)
	name := "goroce-" + r.version + "-linux-" + m.arch
	tgz, err := tarball(name+"/", tree, r.when)
	if err != nil {
		return nil, err
	}
	pkg, err := deb(control(r.version, m.arch, glibc, packaged), packaged, r.when)
	if err != nil {
		return nil, err
	}
	return []file{
		{name: "roce-" + r.version + "-linux-" + m.arch, program: true, data: programs[0].data},
		{name: name + ".tar.gz", data: tgz},
		{name: "goroce_" + debVersion(r.version) + "_" + m.arch + ".deb", data: pkg},
	}, nil
}
