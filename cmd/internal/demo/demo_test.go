package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/cmd/internal/toolcheck"
	"github.com/stretchr/testify/require"
)

// spawnHere runs the peer as a goroutine. tamper, if set, changes its answers.
func spawnHere(tamper func(reply) reply) spawner {
	return func(ctx context.Context, env *tool.Env, args []string) (io.WriteCloser, io.Reader, func() error, error) {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		done := make(chan error, 1)
		go func() {
			err := run(ctx, &tool.Env{Stdout: outW, Stderr: env.Stderr}, args[1:], nil, inR)
			outW.CloseWithError(io.ErrUnexpectedEOF)
			done <- err
		}()
		wait := func() error {
			inW.Close()
			return <-done
		}
		if tamper == nil {
			return inW, outR, wait, nil
		}
		changedR, changedW := io.Pipe()
		go func() {
			dec, enc := json.NewDecoder(outR), json.NewEncoder(changedW)
			for {
				var r reply
				if err := dec.Decode(&r); err != nil {
					changedW.CloseWithError(err)
					return
				}
				if enc.Encode(tamper(r)) != nil {
					return
				}
			}
		}()
		return inW, changedR, func() error { err := wait(); changedR.Close(); return err }, nil
	}
}

// demo runs the demonstration with short measurements.
func demo(t *testing.T, tamper func(reply) reply, extra ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	args := append([]string{
		"--seconds=0.05", "--addr", toolcheck.Addr(t).String(), "--peer-addr", toolcheck.Addr(t).String(),
	}, extra...)
	err := run(t.Context(), &tool.Env{Stdout: &out, Stderr: io.Discard}, args, spawnHere(tamper), nil)
	return out.String(), err
}

func TestDemo(t *testing.T) {
	out, err := demo(t, nil)
	require.NoError(t, err, out)
	for _, want := range []string{
		"added 7: it was 1000, the peer sees 1007",
		"if 1007 then 4242: it was 1007, so swapped in; the peer sees 4242",
		"if 1007 then 1: it was 4242, so refused; the peer sees 4242",
		"refused: remote access error (status 10)",
		"MiB/s", "round trips",
		"All of it was checked",
	} {
		require.Contains(t, out, want)
	}
}

func TestDemoJSON(t *testing.T) {
	out, err := demo(t, nil, "--json", "--no-gso", "--no-gro")
	require.NoError(t, err, out)
	var s summary
	require.NoError(t, json.Unmarshal([]byte(out), &s))
	require.True(t, s.OK)
	var names []string
	for _, st := range s.Steps {
		names = append(names, st.Name)
	}
	require.Equal(t, []string{
		"connect", "SEND", "WRITE", "READ", "FETCH_ADD", "CMP_SWAP", "wrong key", "bandwidth", "latency",
	}, names)
	require.Contains(t, s.Steps[5].Outcome, "swapped in; the peer sees 4242; if 1007 then 1: it was 4242, so refused")
	require.Contains(t, s.Steps[6].Outcome, "its memory is as it was, and this queue pair is in the error state")
}

// Anything that is off ends the demonstration with an error.
func TestDemoNoticesWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		tamper func(reply) reply
		want   string
	}{
		"bytes":      {func(r reply) reply { r.Error = "byte 3 is wrong"; return r }, "byte 3 is wrong"},
		"wrong word": {func(r reply) reply { r.Word++; return r }, "it should have been"},
		"wrong key": {func(r reply) reply {
			if r.RKey != 0 {
				r.RKey ^= 1 << 8
			}
			return r
		}, "remote access error"},
		"wrong address": {func(r reply) reply {
			if r.VAddr != 0 {
				r.VAddr += 4 << 20
			}
			return r
		}, "remote access error"},
		"not an address": {func(r reply) reply {
			if r.Addr != "" {
				r.Addr = "zz"
			}
			return r
		}, "the peer process's address"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := demo(t, c.tamper)
			require.ErrorContains(t, err, c.want, out)
			require.NotContains(t, out, "All of it was checked")
		})
	}
}

func TestDemoInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	tamper := func(r reply) reply {
		cancel(why) // at the first answer
		return r
	}
	args := []string{"--addr", toolcheck.Addr(t).String(), "--peer-addr", toolcheck.Addr(t).String()}
	err := run(ctx, &tool.Env{Stdout: io.Discard, Stderr: io.Discard}, args, spawnHere(tamper), nil)
	require.ErrorIs(t, err, why)
}

func TestDemoArguments(t *testing.T) {
	env := &tool.Env{Stdout: io.Discard, Stderr: io.Discard}
	for args, want := range map[string]string{
		"host":                "no operand",
		"--seconds=-1":        "not a number",
		"--addr 192.0.2.1":    "not an address of this machine",
		"--peer-addr nowhere": "--peer-addr",
	} {
		err := run(t.Context(), env, strings.Fields(args), spawnHere(nil), nil)
		require.ErrorContains(t, err, want)
	}
}

func TestPattern(t *testing.T) {
	a, b := make([]byte, 100), make([]byte, 100)
	pattern(a, 1)
	pattern(b, 2)
	require.NotEqual(t, a, b)
	require.Equal(t, -1, differs(a, 1))
	a[99] ^= 1
	require.Equal(t, 99, differs(a, 1))
}
