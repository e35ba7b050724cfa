package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFindLibraries(t *testing.T) {
	dir := t.TempDir()
	self := filepath.Join(dir, "bin", "roce")
	writeFile(t, self, nil, 0o755)
	_, err := findLibraries("", self)
	require.ErrorContains(t, err, `build them with "make verbs"`)
	require.ErrorContains(t, err, filepath.Join(dir, "bin", "verbs")+", "+filepath.Join(dir, "lib", "goroce"))

	// As an installation has them, then beside the program, which comes first.
	fakeLibraries(t, filepath.Join(dir, "lib", "goroce"))
	libs, err := findLibraries("", self)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "lib", "goroce"), libs.dir)
	fakeLibraries(t, filepath.Join(dir, "bin", "verbs"))
	libs, err = findLibraries("", self)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "bin", "verbs"), libs.dir)

	// Through a link to the program, too.
	link := filepath.Join(t.TempDir(), "roce")
	require.NoError(t, os.Symlink(self, link))
	libs, err = findLibraries("", link)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "bin", "verbs"), libs.dir)

	// Where the user says, nothing else counts.
	_, err = findLibraries(filepath.Join(dir, "nowhere"), self)
	require.ErrorContains(t, err, "looked in "+filepath.Join(dir, "nowhere")+")")
	libs, err = findLibraries(filepath.Join(dir, "lib", "goroce"), self)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "lib", "goroce"), libs.dir)
}

func TestFindLibrariesDamaged(t *testing.T) {
	dir := t.TempDir()
	fakeLibraries(t, dir)
	require.NoError(t, os.Remove(filepath.Join(dir, hookFile)))
	_, err := findLibraries(dir, "")
	require.ErrorContains(t, err, dir+" lacks "+hookFile)

	writeFile(t, filepath.Join(dir, hookFile), nil, 0o644)
	writeFile(t, filepath.Join(dir, libraryFiles[0]), []byte("no library"), 0o644)
	_, err = findLibraries(dir, "")
	require.ErrorContains(t, err, "is no library")

	colon := filepath.Join(t.TempDir(), "a:b")
	fakeLibraries(t, colon)
	_, err = findLibraries(colon, "")
	require.ErrorContains(t, err, "the loader cannot be told")
}

func TestSetLibraries(t *testing.T) {
	for _, c := range []struct{ dir, path, preload, wantPath, wantPreload string }{
		{"/l", "", "", "/l", "/l/" + hookFile},
		{"/l", "/a:/b", "/x.so /y.so", "/l:/a:/b", "/x.so:/y.so:/l/" + hookFile},
		{"/l", "/l:/a", "/x.so:/l/" + hookFile, "/l:/a", "/x.so:/l/" + hookFile}, // "roce run" inside of "roce run"
		{"/l", "/a::/b", "", "/l:/a:/b", "/l/" + hookFile},
		{"/a b", "", "/x.so", "/a b", "/x.so:" + hookFile},
	} {
		vars := parseEnviron([]string{"HOME=/h", libraryPathVar + "=" + c.path, preloadVar + "=" + c.preload})
		(&libraries{dir: c.dir}).set(vars)
		require.Equal(t, c.wantPath, vars.get(libraryPathVar))
		require.Equal(t, c.wantPreload, vars.get(preloadVar))
		require.Equal(t, "/h", vars.get("HOME"))
		require.Equal(t, asanOrder, vars.get(asanVar))
		require.Len(t, vars.list, 4)
	}
}

// A program built with -fsanitize=address runs with the hook before its runtime, and with what the
// user has set.
func TestSetSanitizer(t *testing.T) {
	vars := parseEnviron([]string{asanVar + "=detect_leaks=0"})
	for range 2 { // "roce run" inside of "roce run"
		(&libraries{dir: "/l"}).set(vars)
		require.Equal(t, asanOrder+":detect_leaks=0", vars.get(asanVar))
	}
	vars = parseEnviron([]string{asanVar + "=verify_asan_link_order=1"})
	(&libraries{dir: "/l"}).set(vars)
	require.Equal(t, asanOrder+":verify_asan_link_order=1", vars.get(asanVar), "the last one counts")
}

func TestEnviron(t *testing.T) {
	list := []string{"A=1", "AB=2", "A=3", "nonsense"}
	e := parseEnviron(list)
	require.Equal(t, "1", e.get("A"))
	e.set("A", "x=y")
	require.Equal(t, "x=y", e.get("A"))
	require.Equal(t, "AB=2 nonsense A=x=y", strings.Join(e.list, " "))
	require.Equal(t, "A=1", list[0], "the list that was given has changed")
}
