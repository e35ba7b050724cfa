package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDebianArchive(t *testing.T) {
	tests := []struct {
		name, file, text string
		want             archive
	}{
		{"deb822", "debian.sources", "Types: deb\n# a comment\nURIs: http://mirror.example/debian-security\nSuites: bookworm-security\nComponents: main\n\n" +
			"Types: deb deb-src\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\nComponents: main\nSigned-By: /usr/share/keyrings/k.gpg\n",
			archive{"http://mirror.example/debian", "/usr/share/keyrings/k.gpg"}},
		{"one line", "a.list",
			"# deb http://no.example/debian bookworm main\ndeb-src http://no.example/debian bookworm main\n" +
				"deb [arch=amd64 signed-by=/k.gpg] https://mirror.example/x/debian/ trixie main contrib # why\n",
			archive{"https://mirror.example/x/debian/", "/k.gpg"}},
		{"third party", "b.list", "deb https://other.example/apt bookworm main\n", archive{}},
		{"disabled", "c.sources",
			"Enabled: no\nTypes: deb\nURIs: http://mirror.example/debian\nSuites: bookworm\nComponents: main\n",
			archive{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			etc := t.TempDir()
			if err := os.MkdirAll(filepath.Join(etc, "sources.list.d"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(etc, "sources.list.d", tt.file), []byte(tt.text), 0o644); err != nil {
				t.Fatal(err)
			}
			got, err := debianArchive(etc)
			if tt.want == (archive{}) {
				if !errors.Is(err, errNoArchive) {
					t.Fatalf("got %v, %v; want errNoArchive", got, err)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Fatalf("got %v, %v; want %v", got, err, tt.want)
			}
		})
	}
}

func TestRedact(t *testing.T) {
	if got := redact("Err http://mirror.example:8080/debian x [IP: 192.0.2.1 80]"); got !=
		"Err http://archive/debian x" {
		t.Fatal(got)
	}
}

func TestRetry(t *testing.T) {
	wrong := errors.New("no answer")
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ fails, tries, ran int }{{0, 3, 1}, {2, 3, 3}, {5, 3, 3}} {
			ran := 0
			began := time.Now()
			err := retry(t.Context(), c.tries, time.Second, func() error {
				if ran++; ran <= c.fails {
					return wrong
				}
				return nil
			})
			require.Equal(t, c.ran, ran)
			require.Equal(t, c.fails >= c.tries, errors.Is(err, wrong))
			require.Equal(t, time.Duration(1<<(ran-1)-1)*time.Second, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		ran := 0
		require.ErrorIs(t, retry(ctx, 3, time.Hour, func() error { ran++; cancel(); return wrong }), wrong)
		require.Equal(t, 1, ran)
	})
}

// A program's children keep its output open when it is ended by its limit.
func TestRunCommandReturns(t *testing.T) {
	err := runCommand(t.Context(), 10*time.Millisecond, "sh", "-c", "sleep 60 & wait")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// A kernel of the archive's is chosen by its name behind the suite's, and a machine by its own.
func TestChosenKernel(t *testing.T) {
	for name, want := range map[string]string{
		"trixie":                  "trixie linux-image-amd64",
		"bookworm@6.1.0-47":       "bookworm linux-image-6.1.0-47-amd64",
		"trixie-arm64":            "trixie linux-image-arm64",
		"bookworm-arm64@6.1.0-47": "bookworm linux-image-6.1.0-47-arm64",
	} {
		suite, _, _ := parseSuite(name)
		packages := packagesOf(name)
		require.Equal(t, want, suite+" "+packages[0])
		require.Equal(t, suitePackages, packages[1:])
	}
	a := archive{uri: "http://mirror.example/debian"}
	require.Equal(t, "deb [arch=arm64] http://mirror.example/debian trixie main\n",
		sources(a, "deb", "arm64", "", "trixie-arm64"))
	require.Equal(t, "deb [arch=amd64] http://mirror.example/debian bookworm main\ndeb [arch=amd64] http://mirror.example/debian bookworm-backports main\n"+
		"deb [arch=amd64] http://mirror.example/debian-security bookworm-security main\n", sources(a, "deb",
		"amd64", "", "bookworm@6.1.0-47"))
}
