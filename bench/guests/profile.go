package guests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goroce/goroce/conformance/lab"
)

// profileFile is where a tool in a guest leaves its CPU profile.
const profileFile = "/tmp/cpu.pprof"

// profileEnv is what has a tool leave one.
func (w *bench) profileEnv(own bool) map[string]string {
	if !own || w.o.Profiles == "" {
		return nil
	}
	return map[string]string{"GOROCE_CPUPROFILE": profileFile}
}

// keepProfiles fetches the profiles of both ends of a test.
func (w *bench) keepProfiles(ctx context.Context, t *test) error {
	if err := os.MkdirAll(w.o.Profiles, 0o755); err != nil {
		return err
	}
	name := strings.NewReplacer(" -", "-", " ", "", ",", "-").Replace(t.name() + ", " + w.network.Offloads())
	for end, g := range map[string]*lab.Guest{"client": w.a, "server": w.b} {
		f, err := os.Create(filepath.Join(w.o.Profiles, fmt.Sprintf("%s-%s.pprof", name, end)))
		if err != nil {
			return err
		}
		if err := errors.Join(g.Get(ctx, profileFile, f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
