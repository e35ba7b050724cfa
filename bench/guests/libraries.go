package guests

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"

	"github.com/goroce/goroce/conformance/lab"
)

// libraries are those of "make verbs", which a guest of the same Debian suite as this machine can
// load.
var libraries = []string{"libibverbs.so.1", "librdmacm.so.1", "libgoroce.so", "libgoroce_hook.so", "goroce_will"}

// librariesDir is where they are here, and beside program in a guest.
const librariesDir = "bin/verbs"

// libraryTests are perftest on the libraries: the same program that runs on rxe.
func libraryTests() []test {
	var ts []test
	for _, t := range tests() {
		if t.latency == t.polling { // bandwidth with the device's own thread, latency polling: as one would run them
			t.libraries = true
			ts = append(ts, t)
		}
	}
	return ts
}

// haveLibraries reports whether they were built.
func haveLibraries() bool {
	for _, l := range libraries {
		if _, err := os.Stat(filepath.Join(librariesDir, l)); err != nil {
			return false
		}
	}
	return true
}

// putLibraries brings the libraries into a guest.
func putLibraries(ctx context.Context, g *lab.Guest) error {
	dir := path.Join(path.Dir(program), "verbs")
	if _, err := g.Run(ctx, "mkdir", "-p", dir); err != nil {
		return err
	}
	for _, l := range libraries {
		if err := putFile(ctx, g, filepath.Join(librariesDir, l), path.Join(dir, l)); err != nil {
			return err
		}
	}
	return nil
}

// putFile copies a program or a library.
func putFile(ctx context.Context, g *lab.Guest, from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	return errors.Join(g.Put(ctx, to, 0o755, f), f.Close())
}
