package tool

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOutput(t *testing.T) {
	var out strings.Builder
	env := &Env{Stdout: &out}
	hello := func(w io.Writer) error {
		_, err := io.WriteString(w, "hello")
		return err
	}
	require.NoError(t, env.Output("", hello))
	require.Equal(t, "hello", out.String())

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, env.Output(file, hello))
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "hello", string(b))
	require.Equal(t, "hello", out.String())

	require.ErrorIs(t, env.Output("", func(io.Writer) error { return io.EOF }), io.EOF)
	require.ErrorIs(t, env.Output(file, func(io.Writer) error { return io.EOF }), io.EOF)
	require.ErrorIs(t, env.Output(filepath.Join(file, "below"), hello), syscall.ENOTDIR)
}
