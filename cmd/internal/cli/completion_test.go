package cli

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A roce with two tools, for both shells.
const fakeRoce = `
roce() {
	case "$*" in
	help) printf 'roce: x\n\nUsage:\n  roce <tool> [options] [host]\n\nTools:\n  write_bw       bandwidth of RDMA_Write\n  run            runs any program\n\n' ;;
	'write_bw -h') printf 'Options:\n  -p, --port=<port>   TCP port\n      --json    one object\n      --link=<link>   x: udp\n' ;;
	'run -h') printf 'Options:\n  -d, --ib-dev=<dev>   device\n      --addr=<ip>   address\n      --polling   no thread\n      --link=<link>   x: udp\n' ;;
	esac
}
`

func TestBashCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here")
	}
	for line, want := range map[string]string{
		"roce w":                      "write_bw",
		"roce ":                       "help write_bw run",
		"roce help r":                 "run",
		"roce completion ":            "bash zsh",
		"roce write_bw --":            "--port= --json --link=",
		"roce write_bw --p":           "--port=",
		"roce write_bw --link = ":     "udp packet xdp",
		"roce write_bw --link = p":    "packet",
		"roce write_bw --link =":      "udp packet xdp",
		"roce write_bw --link x":      "xdp",
		"roce write_bw host":          "", // names of files, by bash
		"roce run --po":               "--polling",
		"roce run --addr 1.2.3.4 roc": "roce", // a command
		"roce run --addr = 1.2 roc":   "roce",
		"roce run --polling roc":      "roce",
		"roce run -d eth0 roc":        "roce",
		"roce run -- roc":             "roce",
		"roce run -- prog --x":        "offset 3",
		"roce run prog a":             "offset 2",
		"roce run --addr 1.2":         "", // a value
	} {
		t.Run(line, func(t *testing.T) {
			words := strings.Split(line, " ")
			script := Bash + fakeRoce + `
compopt() { :; }
_command_offset() { COMPREPLY=("offset $1"); }
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_roce; echo "${COMPREPLY[*]}"`
			cmd := exec.Command(bash, append([]string{"--norc", "--noprofile", "-c", script, "bash"}, words...)...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			require.NoError(t, err)
			require.Empty(t, stderr.String())
			got := strings.TrimSpace(string(out))
			if want == "roce" { // among what this machine has
				require.Contains(t, strings.Fields(got), want)
			} else {
				require.Equal(t, want, got)
			}
		})
	}
}

// zsh takes its completion without a complaint, also by way of source.
func TestZshCompletion(t *testing.T) {
	require.True(t, strings.HasPrefix(Zsh, "#compdef roce\n"))
	zsh, err := exec.LookPath("zsh")
	if err != nil {
		t.Skip("no zsh here")
	}
	cmd := exec.Command(zsh, "-f", "-c", "autoload -Uz compinit; compinit -D; source /dev/stdin; echo ${_comps[roce]}")
	cmd.Stdin = strings.NewReader(Zsh)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err)
	require.Equal(t, "_roce\n", string(out))
}
