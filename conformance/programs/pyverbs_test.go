package programs

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// played is a Machine whose runs are written down.
type played struct {
	outs  []string
	errs  []error
	calls [][]string
}

func (p *played) RunPyverbs(_ context.Context, _ string, args ...string) (string, error) {
	i := len(p.calls)
	p.calls = append(p.calls, args)
	return p.outs[i], p.errs[i]
}

func TestRunPyverbs(t *testing.T) {
	crash := errors.New("signal: segmentation fault")
	m := &played{
		outs: []string{
			"noise\n\n@goroce {\"begin\": \"a\"}\n.\n@goroce {\"end\": \"a\", \"result\": \"pass\", \"detail\": \"\"}\n@goroce {\"begin\": \"b\"}\nit goes wrong\n",
			"print without an end @goroce {\"begin\": \"c\"}\n@goroce {\"end\": \"c\", \"result\": \"skip\", \"detail\": \"no ODP\"}\n@goroce {\"done\": true}\n",
		},
		errs: []error{crash, nil},
	}
	got, err := RunPyverbs(t.Context(), m, "--dev", "rxe0")
	require.NoError(t, err)
	require.Len(t, got, 3)
	require.Equal(t, PyResult{"a", Pass, ""}, got[0])
	require.Equal(t, "b", got[1].Test)
	require.Equal(t, Fail, got[1].Result)
	require.Contains(t, got[1].Detail, "segmentation fault")
	require.Equal(t, PyResult{"c", Skip, "no ODP"}, got[2])
	require.Equal(t, [][]string{{"--after=", "--dev", "rxe0"}, {"--after=b", "--dev", "rxe0"}}, m.calls)

	// A process that fails at its end, and one that never gets to the tests.
	got, err = RunPyverbs(t.Context(), &played{outs: []string{"@goroce {\"done\": true}\n"}, errs: []error{crash}})
	require.NoError(t, err)
	require.Equal(t, []PyResult{{"the end of the process", Fail, crash.Error()}}, got)
	_, err = RunPyverbs(t.Context(), &played{outs: []string{"no module named pyverbs\n"}, errs: []error{crash}})
	require.ErrorIs(t, err, crash)
	require.ErrorContains(t, err, "no module named pyverbs")
	_, err = RunPyverbs(t.Context(), &played{outs: []string{"@goroce nonsense\n"}, errs: []error{nil}})
	require.ErrorContains(t, err, "nonsense")
}

// The script itself, with tests that end in each way.
func TestPyverbsRunner(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		scriptName:             runnerScript,
		"tests/args_parser.py": "class P:\n    def parse_args(self): pass\nparser = P()\n",
		"tests/__init__.py":    "import importlib\n__test_modules__ = [importlib.import_module('tests.test_a')]\n",
		"tests/test_a.py": `import os, sys, unittest
class A(unittest.TestCase):
    def test_1(self): print("@goroce is not for tests" if False else "hello")
    def test_2(self): raise unittest.SkipTest("no ODP")
    def test_3(self): self.assertEqual(1, 2)
    def test_4(self): raise OSError("broken")
    def test_5(self): os.abort()
    def test_6(self):
        """A line that unittest would print in place of the name."""
class B(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise OSError("no device")
    def test_1(self): pass
`,
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	m := machineFunc(func(ctx context.Context, script string, args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, python,
			append([]string{filepath.Join(dir, scriptName)}, args...)...).CombinedOutput()
		return string(out), err
	})
	got, err := RunPyverbs(t.Context(), m)
	require.NoError(t, err)
	var lines []string
	for _, x := range got {
		lines = append(lines, strings.TrimPrefix(x.Test, "tests.test_a.")+" "+string(x.Result))
	}
	require.Equal(t, []string{"A.test_1 pass", "A.test_2 skip", "A.test_3 fail", "A.test_4 fail",
		"A.test_5 fail", "A.test_6 pass", "setUpClass (tests.test_a.B) fail"}, lines)
	require.Equal(t, "no ODP", got[1].Detail)
	require.Contains(t, got[2].Detail, "1 != 2")
}

type machineFunc func(ctx context.Context, script string, args ...string) (string, error)

func (f machineFunc) RunPyverbs(ctx context.Context, script string, args ...string) (string, error) {
	return f(ctx, script, args...)
}
