package run

import (
	"debug/elf"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckProgram(t *testing.T) {
	dir := t.TempDir()
	libs := fakeLibraries(t, filepath.Join(dir, "libs"))
	fakeLibraries(t, filepath.Join(dir, "others"))
	others := filepath.Join(dir, "others")
	me := identity{uid: os.Getuid(), gid: os.Getgid(), realUID: os.Getuid(), realGID: os.Getgid()}
	stranger := identity{uid: 12345, gid: 12345, realUID: 12345, realGID: 12345}
	dynamic := program{interp: glibcLoader}
	for name, c := range map[string]struct {
		p    program
		mode fs.FileMode
		who  identity
		want string // part of the error; empty: it runs
	}{
		"dynamic":                        {dynamic, 0o755, me, ""},
		"set-user-ID, of mine":           {dynamic, 0o755 | fs.ModeSetuid, me, ""},
		"set-user-ID":                    {dynamic, 0o755 | fs.ModeSetuid, stranger, "is set-user-ID"},
		"set-group-ID":                   {dynamic, 0o755 | fs.ModeSetgid, stranger, "is set-group-ID"},
		"set-group-ID without execution": {dynamic, 0o744 | fs.ModeSetgid, stranger, ""},
		"already with another's rights":  {dynamic, 0o755, identity{uid: 0, realUID: 12345}, "is set-user-ID"},
		"static":                         {program{}, 0o755, me, "is statically linked"},
		"the loader": {program{dynamic: []entry{{elf.DT_SONAME, "ld-linux-x86-64.so.2"}}}, 0o755,
			me, ""},
		"musl": {program{interp: "/lib/ld-musl-x86_64.so.1"}, 0o755, me,
			"is a program for musl (/lib/ld-musl-x86_64.so.1)"},
		"32 bits": {program{class: elf.ELFCLASS32, machine: elf.EM_386}, 0o755, me,
			"is a program for 386 (32 bits), the libraries are for X86_64 (64 bits)"},
		"another processor": {program{machine: elf.EM_AARCH64, interp: "/lib/ld-linux-aarch64.so.1"},
			0o755, me, "is a program for AARCH64 (64 bits)"},
		"RPATH to other libraries": {program{
			interp: glibcLoader, dynamic: []entry{{elf.DT_RPATH, "/nowhere:" + others}},
		}, 0o755, me, "has an RPATH, which leads to " + others},
		"RPATH relative to the program": {program{
			interp: glibcLoader, dynamic: []entry{{elf.DT_RPATH, "$ORIGIN/../others"}},
		}, 0o755, me, "has an RPATH"},
		"RPATH to ours": {program{
			interp: glibcLoader, dynamic: []entry{{elf.DT_RPATH, libs.dir + ":" + others}},
		}, 0o755, me, ""},
		"RPATH elsewhere": {program{interp: glibcLoader, dynamic: []entry{{elf.DT_RPATH, "/nowhere"}}},
			0o755, me, ""},
		"RUNPATH": {program{interp: glibcLoader, dynamic: []entry{{elf.DT_RUNPATH, others}}},
			0o755, me, ""},
		"RPATH that RUNPATH makes no use": {program{
			interp: glibcLoader, dynamic: []entry{{elf.DT_RPATH, others}, {elf.DT_RUNPATH, "/nowhere"}},
		}, 0o755, me, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, filepath.Join(t.TempDir(), "bin", "program"), c.p.build(), c.mode)
			if c.p.dynamic != nil && c.p.dynamic[0].value == "$ORIGIN/../others" {
				path = writeFile(t, filepath.Join(dir, "bin", "program"), c.p.build(), c.mode)
			}
			err := checkProgram(path, libs, c.who)
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}

// Every truncation of a program is refused with an error, and none is taken for a dynamic program
// of glibc.
func TestCheckProgramCutShort(t *testing.T) {
	libs := &libraries{class: elf.ELFCLASS64, machine: elf.EM_X86_64}
	whole := program{interp: glibcLoader}.build()
	path := filepath.Join(t.TempDir(), "program")
	for n := range 64 + 56 + len(glibcLoader) {
		writeFile(t, path, whole[:n], 0o755)
		require.Error(t, checkProgram(path, libs, identity{}), "%d bytes", n)
	}
}

// What counts for a script is its interpreter.
func TestCheckScript(t *testing.T) {
	dir := t.TempDir()
	libs := fakeLibraries(t, filepath.Join(dir, "libs"))
	dynamic := program{interp: glibcLoader}.write(t, filepath.Join(dir, "dynamic"))
	static := program{}.write(t, filepath.Join(dir, "static"))
	script := func(name, text string) string { return writeFile(t, filepath.Join(dir, name), []byte(text), 0o755) }
	require.NoError(t, checkProgram(script("a", "#!"+dynamic+" -u\nprint(1)\n"), libs, identity{}))
	require.NoError(t, checkProgram(script("b", "#! "+filepath.Join(dir, "a")), libs, identity{}))
	require.ErrorContains(t, checkProgram(script("c", "#!"+static+"\n"), libs, identity{}),
		static+" is statically linked")
	require.ErrorContains(t, checkProgram(script("d", "#!\n"), libs, identity{}), "no interpreter")
	require.ErrorContains(t, checkProgram(script("e", "#!"+filepath.Join(dir, "e")+"\n"), libs, identity{}),
		"too many scripts")
	require.ErrorContains(t, checkProgram(script("f", "#!/nowhere/python\n"), libs, identity{}), "/nowhere/python")
	require.ErrorContains(t, checkProgram(script("g", "hello"), libs, identity{}), "is no ELF program")
	require.ErrorContains(t, checkProgram(script("h", ""), libs, identity{}), "is no ELF program")
}
