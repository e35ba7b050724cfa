package suites

import (
	"context"
	"path/filepath"
	"regexp"
	"time"

	"github.com/goroce/goroce/conformance/lab"
)

// ucx are the tests of UCX that use an InfiniBand device: of its transports over verbs, of the
// protocols above them, of what lies below, and of how it connects by RDMA-CM.
func ucx() Suite {
	return Suite{
		Name:    "ucx",
		About:   "UCX's gtest: `uct` and `ucp` over `rc_verbs` and `ud_verbs`, its tests of InfiniBand, and connections by RDMA-CM",
		Package: "ucx", Version: "1.13.1-1", Release: "bookworm", Share: 200,
		Needs: []lab.Need{{What: "g++", Package: "g++"}, {What: "/usr/include/numa.h", Package: "libnuma-dev"}},
		// Debian's archive of the source has that folder under another name, and automake wants it.
		Build: `ln -s debian.upstream debian
./autogen.sh
./configure --prefix="$PWD/installed" --enable-gtest --with-verbs --with-rdmacm --without-java --without-go --disable-static --disable-dependency-tracking
make -j2 GTEST_CXXFLAGS="-fno-tree-vectorize -O0 -Wno-error"
`,
		Run: runUCX,
	}
}

// ucxTests are the first words of the names of tests that use a device of ours: the transports,
// RDMA-CM, and the suites for InfiniBand alone.
var ucxTests = regexp.MustCompile(`^(rc_verbs|ud_verbs|rc|ud|rcud|rdmacm|ib)/|/?test_(uct_)?(ib|rc|ud|cm)_|uct_.*ib`)

// ucxSilence is for one test: the program's own limit is 15 minutes.
const ucxSilence = 16 * time.Minute

func runUCX(ctx context.Context, t *Turn) error {
	g := gtest{
		argv: []string{filepath.Join(t.Dir, "test", "gtest", "gtest")},
		test: ucxTests.MatchString, silence: ucxSilence,
	}
	return g.run(ctx, t)
}
