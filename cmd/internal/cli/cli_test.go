package cli

import (
	"bytes"
	"context"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/cmd/internal/toolcheck"
	"github.com/stretchr/testify/require"
)

func TestRun(t *testing.T) {
	for _, c := range []struct {
		args           []string
		status         int
		stdout, stderr string // parts
	}{
		{nil, exitUsage, "", "roce <tool>"},
		{[]string{"help"}, exitOK, "  write_bw ", ""},
		{[]string{"--help"}, exitOK, "  srq_pingpong ", ""},
		{[]string{"write_bw", "-h"}, exitOK, "roce write_bw <host>", ""},
		{[]string{"help", "write_bw"}, exitOK, "roce write_bw <host>", ""},
		{[]string{"help", "nothing"}, exitUsage, "", `there is no tool "nothing"`},
		{[]string{"ib_write_bw", "--version"}, exitOK, "Version: 6.06", ""},
		{[]string{"ibv_rc_pingpong", "-h"}, exitOK, "roce rc_pingpong", ""},
		{[]string{"ib_nothing"}, exitUsage, "", `there is no tool "ib_nothing"`},
		{[]string{"write_bw", "--nonsense"}, exitUsage, "", "option --nonsense: unknown"},
		{[]string{"write_bw", "-n"}, exitUsage, "", `"roce write_bw -h" lists the options`},
		// What no option is wrong with by itself is misuse all the same.
		{[]string{"write_bw", "one", "two"}, exitUsage, "", `one host at most, not ["one" "two"]`},
		{[]string{"write_bw", "-D", "5", "-a"}, exitUsage, "", "-D and -a do not go together"},
		{[]string{"atomic_lat", "-s", "16"}, exitUsage, "", `"roce atomic_lat -h" lists the options`},
		{[]string{"srq_pingpong", "-r", "1", "-q", "2"}, exitUsage, "", "-r 1 is too small for -q 2"},
		{[]string{"demo", "here"}, exitUsage, "", `no operand is expected, not ["here"]`},
		{[]string{"demo", "--peer-addr", "here"}, exitUsage, "", "option --peer-addr: "},
		{[]string{"devinfo", "here"}, exitUsage, "", `no operand is expected, not ["here"]`},
		{[]string{"version"}, exitOK, "roce ", ""},
		{[]string{"-V"}, exitOK, "roce ", ""},
		{[]string{"--version", "--json"}, exitOK, `{"version":"`, ""},
		{[]string{"version", "5"}, exitUsage, "", `no operand is expected, not ["5"]`},
		{[]string{"completion", "bash"}, exitOK, "complete -o bashdefault", ""},
		{[]string{"completion", "zsh"}, exitOK, "#compdef roce", ""},
		{[]string{"completion", "fish"}, exitUsage, "", `bash or zsh is expected, not ["fish"]`},
		{[]string{"run"}, exitUsage, "", "a program is expected"},
		{[]string{"run", "-h"}, exitOK, "roce run [options] [--] PROGRAM", ""},
		{[]string{"devinfo", "--addr", "192.0.2.1"}, exitFailure, "", "not an address of this machine"},
	} {
		var stdout, stderr bytes.Buffer
		got := Run(t.Context(), &tool.Env{Stdout: &stdout, Stderr: &stderr}, c.args)
		require.Equal(t, c.status, got, "%q: %s", c.args, &stderr)
		require.Contains(t, stdout.String(), c.stdout)
		require.Contains(t, stderr.String(), c.stderr)
	}
}

func TestInterrupted(t *testing.T) {
	for _, name := range []string{"write_bw", "rc_pingpong"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		var stdout, stderr bytes.Buffer
		env := &tool.Env{Stdout: &stdout, Stderr: &stderr, Listening: func(netip.AddrPort) { cancel(errInterrupted) }}
		got := Run(ctx, env, []string{name, "-p", "0", "--addr", toolcheck.Addr(t).String()})
		require.Equal(t, exitInterrupted, got)
		require.Equal(t, "roce "+name+": interrupted\n", stderr.String())
	}
}

func TestCommandsAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Commands() {
		require.False(t, seen[c.Name], c.Name)
		seen[c.Name] = true
		require.NotEmpty(t, c.Summary)
	}
	require.Len(t, seen, 33)
}
