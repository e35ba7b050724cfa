package lab

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// agentSource is the verbs agent: the only C in the project, because libibverbs is
// the only way to the kernel's rxe. Its protocol is described in its head and spoken
// by package verbs.
//
//go:embed agent/verbsd.c
var agentSource []byte

// buildAgent compiles verbsd against a suite's own headers and libraries, so that it
// runs in that suite's guest whatever this machine runs, and returns its bytes.
func buildAgent(ctx context.Context, root, dir string) ([]byte, error) {
	src := filepath.Join(dir, "verbsd.c")
	bin := filepath.Join(dir, "verbsd")
	if old, err := os.ReadFile(src); err == nil && bytes.Equal(old, agentSource) {
		if b, err := os.ReadFile(bin); err == nil {
			return b, nil
		}
	}
	header, err := os.ReadFile(filepath.Join(root, "usr/include/infiniband/verbs.h"))
	if err != nil {
		return nil, err
	}
	args := []string{"--sysroot=" + root, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", bin}
	// The names are enumerators, which the preprocessor cannot see.
	for name, def := range map[string]string{"IBV_WR_FLUSH": "HAVE_FLUSH", "IBV_WR_ATOMIC_WRITE": "HAVE_ATOMIC_WRITE"} {
		if bytes.Contains(header, []byte(name)) {
			args = append(args, "-D"+def)
		}
	}
	if err := writeFile(src, agentSource, 0o644); err != nil {
		return nil, err
	}
	os.Remove(bin)
	out, err := exec.CommandContext(ctx, "gcc", append(args, src, "-libverbs")...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("lab: building verbsd: %w:\n%s", err, tail(out, 4000))
	}
	return os.ReadFile(bin)
}
