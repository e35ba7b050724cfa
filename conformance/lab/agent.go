package lab

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// agentSource is the verbs agent: the only C in the project, because libibverbs is the only way to
// the kernel's rxe. Its protocol is described in verbsd.h and spoken by package peer.
//
//go:embed agent/*.c agent/*.h
var agentSource embed.FS

// buildAgent compiles verbsd against a suite's own headers and libraries, so that it
// runs in that suite's guest whatever this machine runs, and returns its bytes.
func buildAgent(ctx context.Context, m *machine, root, dir string) ([]byte, error) {
	src := filepath.Join(dir, "agent")
	bin := filepath.Join(dir, "verbsd")
	files, err := agentSource.ReadDir("agent")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(src, 0o755); err != nil {
		return nil, err
	}
	fresh := true
	var units []string
	for _, f := range files {
		b, err := agentSource.ReadFile("agent/" + f.Name())
		if err != nil {
			return nil, err
		}
		p := filepath.Join(src, f.Name())
		if filepath.Ext(p) == ".c" {
			units = append(units, p)
		}
		if old, err := os.ReadFile(p); err == nil && bytes.Equal(old, b) {
			continue
		}
		fresh = false
		os.Remove(bin) // before the source changes: an interrupted build must not look done
		if err := writeFile(p, b, 0o644); err != nil {
			return nil, err
		}
	}
	if fresh {
		if b, err := os.ReadFile(bin); err == nil {
			return b, nil
		}
	}
	header, err := os.ReadFile(filepath.Join(root, "usr/include/infiniband/verbs.h"))
	if err != nil {
		return nil, err
	}
	// -B and -L: gcc would look for crt files and libc beside itself before the sysroot.
	libs := filepath.Join(root, m.libs)
	args := []string{"--sysroot=" + root, "-B" + libs + "/", "-L" + libs, "-std=gnu11", "-O2", "-Wall",
		"-Wextra", "-Werror", "-o", bin}
	// The names are enumerators, which the preprocessor cannot see.
	for name, def := range map[string]string{"IBV_WR_FLUSH": "HAVE_FLUSH", "IBV_WR_ATOMIC_WRITE": "HAVE_ATOMIC_WRITE"} {
		if bytes.Contains(header, []byte(name)) {
			args = append(args, "-D"+def)
		}
	}
	out, err := exec.CommandContext(ctx, m.gcc.What, append(append(args, units...), "-libverbs")...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("lab: building verbsd: %w:\n%s", err, tail(out, 4000))
	}
	return os.ReadFile(bin)
}
