package tool

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScreenOfFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer f.Close()
	for _, c := range []struct {
		env  map[string]string
		want Screen
	}{
		{nil, Screen{}},
		{map[string]string{"TERM": "xterm", "LANG": "C"}, Screen{}},
		{map[string]string{"LANG": "de_DE.UTF-8"}, Screen{UTF8: true}},
		{map[string]string{"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, Screen{}},
		{map[string]string{"LC_CTYPE": "C.utf8", "LANG": "C", "COLUMNS": "60"}, Screen{UTF8: true, Width: 60}},
		{map[string]string{"COLUMNS": "-3"}, Screen{}},
	} {
		require.Equal(t, c.want, ScreenOf(f, func(name string) string { return c.env[name] }), "%v", c.env)
	}
}

func TestScreenPaint(t *testing.T) {
	require.Equal(t, "ok", Screen{}.Paint(Red, "ok"))
	require.Equal(t, "\x1b[31mok\x1b[0m", Screen{Colour: true}.Paint(Red, "ok"))
}

func TestScreenWrap(t *testing.T) {
	text := "the quick brown fox jumps over the lazy dog"
	require.Equal(t, []string{text}, Screen{}.Wrap(text, 10))
	require.Equal(t, []string{"the quick brown fox", "jumps over the lazy", "dog"}, Screen{Width: 25}.Wrap(text, 4))
	require.Equal(t, []string{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "b"},
		Screen{Width: 10}.Wrap("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b", 0))
}

func TestScreenPrintable(t *testing.T) {
	require.Equal(t, "a?[31mb", Screen{}.Printable("a\x1b[31mb"))
	require.Equal(t, "é?", Screen{UTF8: true}.Printable("é\u009b"))
	require.Equal(t, "?", Screen{}.Printable("é"))
}
