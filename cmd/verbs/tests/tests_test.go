package tests

import (
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/verbs/tests/cprog"
)

func TestMain(m *testing.M) { cprog.Main(m) }

func libraries(t *testing.T) string {
	t.Helper()
	return cprog.Libraries(t, "..", "infiniband/verbs.h", "libibverbs-dev")
}

// Each program checks by itself, and says what is wrong.
func TestPrograms(t *testing.T) {
	libs := libraries(t)
	sources, err := filepath.Glob("programs/*.c")
	if err != nil || len(sources) == 0 {
		t.Fatal("no programs", err)
	}
	type result struct {
		code         int
		out, stderrs string
	}
	want := map[string]result{
		"wild":   {code: -1}, // by a signal
		"atexit": {code: 9, out: "atexit\ndestructor\n"},
	}
	hook := "LD_PRELOAD=" + filepath.Join(libs, "libgoroce_hook.so")
	for _, source := range sources {
		name := strings.TrimSuffix(filepath.Base(source), ".c")
		exe := cprog.Compile(t, source, "-libverbs", "-ldl")
		for mode, env := range map[string][]string{"plain": nil, "polling": {"GOROCE_POLLING=1"}, "hook": {hook}} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				out, errs, code := cprog.Run(t, libs, env, exe)
				if w := want[name]; code != w.code || out != w.out || errs != w.stderrs {
					t.Errorf("ended with %d, and said:\n%s%swant %d, and:\n%s%s", code, out, errs, w.code,
						w.out, w.stderrs)
				}
			})
		}
	}
}

// symbolsOf returns the symbols that a library defines, each with its version.
func symbolsOf(t *testing.T, path string) map[string]bool {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	syms, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, s := range syms {
		if s.Section != elf.SHN_UNDEF && s.Section != elf.SHN_ABS {
			all[s.Name+" "+s.Version] = true
		}
	}
	return all
}

// The libraries also build with the headers of later releases, which declare what those of
// rdma-core 44 do not. The test declares it in a way that no definition in C could match.
func TestLaterHeaders(t *testing.T) {
	text, err := os.ReadFile("../libibverbs/libibverbs.map")
	if err != nil {
		t.Fatal(err)
	}
	declared := "struct goroce_other;\nstruct ibv_buf { int other; };\nstruct ibv_mr_init_attr { int other; };\n"
	node, count := "", 0
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutSuffix(strings.TrimSpace(line), " {"); ok {
			node = name
		}
		var release int
		if _, err := fmt.Sscanf(node, "IBVERBS_1.%d", &release); err != nil || release < 15 {
			continue
		}
		if name, ok := strings.CutSuffix(strings.TrimSpace(line), ";"); ok && !strings.ContainsAny(name, "*} ") {
			declared += "struct goroce_other *" + name + "(struct goroce_other *);\n"
			count++
		}
	}
	if count < 15 {
		t.Fatalf("%d functions of later releases in the map", count)
	}
	header := filepath.Join(t.TempDir(), "later.h")
	if err := os.WriteFile(header, []byte(declared), 0o644); err != nil {
		t.Fatal(err)
	}
	libraries(t)
	sources, _ := filepath.Glob("../libibverbs/*.c")
	for _, source := range sources {
		out, err := exec.Command("gcc", "-std=gnu11", "-fsyntax-only", "-I../include", "-include", header,
			source).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", source, err, out)
		}
	}
}

// Every symbol of rdma-core's libibverbs is there, in its version: symbols.txt is the list of
// rdma-core 44. What is there besides is in extra.txt, so that nothing gets out by mistake.
func TestSymbols(t *testing.T) {
	have := symbolsOf(t, filepath.Join(libraries(t), "libibverbs.so.1"))
	listed := map[string]bool{}
	for _, file := range []string{"symbols.txt", "extra.txt"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' {
				continue
			}
			listed[line] = true
			if !have[line] {
				t.Errorf("%s, of %s, is missing", line, file)
			}
		}
	}
	for _, s := range slices.Sorted(maps.Keys(have)) {
		if !listed[s] && !strings.Contains(s, "GLIBC_") {
			t.Errorf("%s is not listed", s)
		}
	}
	for _, s := range []string{"sigaction", "signal", "__sysv_signal"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(have)),
			func(h string) bool { return strings.HasPrefix(h, s+" GLIBC_") }) {
			t.Errorf("%s is not there in the version of libc", s)
		}
	}
}

// A core that is missing, or an address that is not this machine's, is said in one line.
func TestOneLine(t *testing.T) {
	libs := libraries(t)
	exe := cprog.Compile(t, "programs/dlvsym.c", "-libverbs", "-ldl")
	alone := t.TempDir()
	lib, err := os.ReadFile(filepath.Join(libs, "libibverbs.so.1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(alone, "libibverbs.so.1"), lib, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		libs, addr, want string
	}{
		"no core":      {alone, "127.0.0.1,127.0.0.2", "libgoroce.so"},
		"no address":   {libs, "127.0.0.1,192.0.2.77", "192.0.2.77"},
		"not one":      {libs, "127.0.0.1,localhost", "localhost"},
		"unknown link": {libs, "127.0.0.1,127.0.0.2", "GOROCE_LINK"},
	} {
		t.Run(name, func(t *testing.T) {
			env := []string{"GOROCE_ADDR=" + c.addr}
			if name == "unknown link" {
				env = append(env, "GOROCE_LINK=carrier-pigeon")
			}
			_, errs, code := cprog.Run(t, c.libs, env, exe)
			lines := strings.Split(strings.TrimSpace(errs), "\n")
			if code == 0 || len(lines) != 2 || !strings.HasPrefix(lines[0], "goroce: ") ||
				!strings.Contains(lines[0], c.want) {
				t.Errorf("ended with %d, and said:\n%s", code, errs)
			}
		})
	}
}
