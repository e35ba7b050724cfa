package drill

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// written makes files of contents by name.
func written(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// A user's own scripts need no title and no authority, and what is wrong with them is said with
// file and line, of all files.
func TestRead(t *testing.T) {
	dir := written(t, map[string]string{
		"b.drill": "qp rc\n", "a.drill": head + "qp rc\n", "notes.txt": "no script", "plain": "qp uc\n",
		"sub/c.drill": "qp rc\n", "wrong/one.drill": "qp rc\njump\n", "wrong/two.drill": "\n\nqp rc mtu=x:\n",
		"none/x": "", "other/a.drill": "qp rc\n", "long/long.drill": strings.Repeat("#", maxScriptBytes+1),
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	list, err := Read(dir, at("plain"), at("sub"))
	require.NoError(t, err)
	var names, titles []string
	for _, d := range list {
		names, titles = append(names, d.Name), append(titles, d.Title)
	}
	require.Equal(t, []string{"a", "b", "plain", "c"}, names)
	require.Equal(t, []string{"t", "b", "plain", "c"}, titles)
	require.Equal(t, []Authority{{Clause, "IBTA 9"}}, list[0].Authority)
	require.Equal(t, []Authority{{own, "the script " + at("b.drill")}}, list[1].Authority)
	require.Equal(t, Pass, Run(t.Context(), list[0], NewEngine(), Options{}).Verdict)

	for _, x := range []struct {
		paths []string
		want  []string
	}{
		{[]string{at("wrong")}, []string{at("wrong/one.drill") + `:2:1: "jump" is no step`,
			at("wrong/two.drill") + `:3:11: "x:" is neither`}},
		{[]string{at("none")}, []string{at("none") + ": there is no file *.drill"}},
		{[]string{at("missing.drill")}, []string{"missing.drill: no such file"}},
		{[]string{dir, at("other")}, []string{at("other/a.drill") + ": the name of " + at("a.drill") + " is a, too"}},
		{[]string{at("long")}, []string{"at most 65536 bytes"}},
	} {
		_, err := Read(x.paths...)
		for _, want := range x.want {
			require.ErrorContains(t, err, want)
		}
	}
}

// What goes wrong while a script is played has its place in the script, and is no loss of the peer.
func TestBrokenHasItsPlace(t *testing.T) {
	for _, steps := range []string{"qp rc mtu=1000", "qp rc\npost SEND len=8 local=rx+262145",
		"qp rc\nmr a 64\n> WRITE ONLY data=hex:00 len=2"} {
		d, err := parse("dir/test.drill", []byte(steps))
		require.NoError(t, err)
		r := Run(t.Context(), d, NewEngine(), Options{})
		require.Equal(t, Broken, r.Verdict)
		require.Regexp(t, `^dir/test\.drill:[123]:\d+: `, r.Text)
		require.False(t, r.Lost)
	}
}
