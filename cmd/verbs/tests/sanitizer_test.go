package tests

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/goroce/goroce/cmd/verbs/tests/cprog"
)

// Programs that are built with a sanitizer, whose runtime is a library of its own (gcc) or a part
// of the program (clang), run as others do, with the hook before that runtime, in the environment
// that "roce run" makes.
func TestSanitizers(t *testing.T) {
	libs := libraries(t)
	env := []string{
		"LD_PRELOAD=" + filepath.Join(libs, "libgoroce_hook.so"),
		// Finding leaks takes ptrace, which containers forbid.
		"ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0",
	}
	for _, compiler := range []string{"gcc", "clang"} {
		for _, sanitizer := range []string{"address", "thread"} {
			t.Run(compiler+"/"+sanitizer, func(t *testing.T) {
				exe := filepath.Join(t.TempDir(), "program")
				b, err := exec.Command(compiler, "-std=gnu11", "-g", "-O1", "-Wno-unused-function",
					"-fsanitize="+sanitizer, "-pthread", "-o", exe, "programs/destroyed.c",
					"-libverbs").CombinedOutput()
				if err != nil {
					t.Skipf("%s cannot build it: %v\n%s", compiler, err, b)
				}
				if out, errs, code := cprog.Run(t, libs, env, exe); code != 0 || out+errs != "" {
					t.Errorf("ended with %d, and said:\n%s%s", code, out, errs)
				}
			})
		}
	}
}
