package suites

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a need looks for is in the package that it names: else the package is never installed where
// another one has brought the file. In Debian pkg-config is empty, and depends on pkgconf.
func TestNeeds(t *testing.T) {
	if _, err := exec.LookPath("dpkg-query"); err != nil {
		t.Skip("dpkg-query is not installed")
	}
	for _, n := range Needs(Names()) {
		path := n.What
		if found, err := exec.LookPath(path); err == nil {
			path = found
		}
		out, err := exec.Command("dpkg-query", "--search", path).Output()
		if err != nil {
			t.Logf("no package has %s here", path)
			continue
		}
		owner, _, _ := strings.Cut(string(out), ":")
		if n.What != "pkg-config" {
			require.Equal(t, n.Package, owner, n.What)
		}
	}
}
