package lab

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A package is named once, if anything of it is missing: a program in no folder, or a file.
func TestMissing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	file := filepath.Join(dir, "header.h")
	for _, f := range []string{filepath.Join(dir, "have-this-program"), file} {
		if err := os.WriteFile(f, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got := missing([]Need{
		{"have-this-program", "a"}, {"no-such-program", "b"}, {file, "c"}, {file + ".not", "d"},
		{"no-such-program-either", "b"},
	})
	if want := []string{"b", "d"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
