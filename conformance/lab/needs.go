package lab

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Need is something that has to be on this machine, and the Debian package that has it: a program,
// or, with an absolute path, a file.
type Need struct{ What, Package string }

// there reports whether it is there.
func (n Need) there() bool {
	if strings.HasPrefix(n.What, "/") {
		_, err := os.Stat(n.What)
		return err == nil
	}
	_, err := lookPath(n.What)
	return err == nil
}

// missing returns the packages of what is not there.
func missing(needs []Need) []string {
	var packages []string
	for _, n := range needs {
		if !n.there() && !slices.Contains(packages, n.Package) {
			packages = append(packages, n.Package)
		}
	}
	return packages
}

// Install installs the packages of what is missing; without the right to, the error says which
// those are.
func Install(ctx context.Context, needs []Need, logf func(string, ...any)) error {
	packages := missing(needs)
	if len(packages) == 0 {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("lab: missing packages; as root run: apt-get install --no-install-recommends %s",
			strings.Join(packages, " "))
	}
	logf("lab: installing %s", strings.Join(packages, " "))
	if err := runApt(ctx, "update"); err != nil {
		return err
	}
	return runApt(ctx, append([]string{"install", "-y", "--no-install-recommends"}, packages...)...)
}
