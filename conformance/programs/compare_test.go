package programs

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteComparison(t *testing.T) {
	columns := []Column{
		{"goroce", []PyResult{
			{"tests.a", Pass, ""}, {"tests.b", Fail, "1 != 2"}, {"tests.c", Skip, "no ODP"}, {"tests.d", Skip, "no DM"},
		}},
		{"rxe", []PyResult{{"tests.a", Fail, "broken"}, {"tests.b", Pass, ""},
			{"tests.c", Skip, "no ODP caps"}, {"tests.d", Pass, ""}, {"tests.e", Pass, ""}}},
	}
	var b strings.Builder
	require.NoError(t, WriteComparison(&b, columns))
	for _, want := range []string{
		"| passed | 1 | 3 |\n| failed | 1 | 1 |\n| skipped | 2 | 1 |\n",
		"| `a` | pass | fail |\n| `b` | fail | pass |\n| `d` | skip | pass |\n| `e` | | pass |\n",
		"Passes on rxe and not here: 3.\n\n- `b` (goroce): fail: 1 != 2\n- `d` (goroce): skip: no DM\n",
		"Failures, here and there: 2.\n",
		"- no ODP: `c`\n",
	} {
		require.Contains(t, b.String(), want)
	}
}

// The archive for a guest has the suite, unpacked, where it is run, links as links, and no
// documentation.
func TestWriteTar(t *testing.T) {
	root := t.TempDir()
	var z bytes.Buffer
	g := gzip.NewWriter(&z)
	_, err := io.WriteString(g, "import unittest\n")
	require.NoError(t, errors.Join(err, g.Close()))
	for name, text := range map[string]string{
		pyverbsTests + "/base.py.gz": z.String(), pyverbsTests + "/__init__.py": "",
		"/usr/bin/python3.11": "ELF", "/usr/share/doc/x/copyright": "all rights",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(root+name), 0o755))
		require.NoError(t, os.WriteFile(root+name, []byte(text), 0o755))
	}
	require.NoError(t, os.Symlink("python3.11", root+"/usr/bin/python3"))
	var out bytes.Buffer
	require.NoError(t, writeTar(&out, root))
	got := map[string]string{}
	for r := tar.NewReader(&out); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		if h.Typeflag != tar.TypeDir {
			got[h.Name] = h.Linkname + string(b)
		}
	}
	require.Equal(t, map[string]string{
		"opt/pyverbs/tests/base.py": "import unittest\n", "opt/pyverbs/tests/__init__.py": "",
		"usr/bin/python3.11": "ELF", "usr/bin/python3": "python3.11",
	}, got)
}
