package cli

import (
	"bytes"
	"testing"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/stretchr/testify/require"
)

// Every option letter of the originals (the getopt strings of rdma-core 44 to 64) is known here,
// takes an argument if theirs does, and if it cannot be had, that is said.
func TestOptionsOfTheOriginals(t *testing.T) {
	for name, letters := range map[string]string{
		"rping":       "a:I:Pp:C:S:t:scvVdq",
		"ucmatose":    "s:b:f:P:c:C:S:t:p:a:m",
		"udaddy":      "s:b:c:C:S:t:p:P:f:",
		"mckey":       "m:M:sb:c:C:S:p:ol",
		"rstream":     "s:b:f:B:i:I:C:S:p:k:T:",
		"riostream":   "s:b:f:B:i:I:C:S:p:T:",
		"cmtime":      "B:b:C:c:Lm:n:P:p:q:r:S:t:", // and -S without an argument in 56
		"rdma_server": "s:p:",
		"rdma_client": "s:p:",
	} {
		for i := range letters {
			if letters[i] == ':' {
				continue
			}
			args := []string{name, "-" + letters[i:i+1]}
			takes := i+1 < len(letters) && letters[i+1] == ':'
			if name == "cmtime" && letters[i] == 'S' {
				takes = false
			}
			if takes {
				args = append(args, valueOf[name+" "+letters[i:i+1]])
				if args[2] == "" {
					args[2] = "7"
				}
			}
			var stdout, stderr bytes.Buffer
			status := Run(t.Context(), &tool.Env{Stdout: &stdout, Stderr: &stderr}, append(args, "--nonsense"))
			require.Equal(t, exitUsage, status, "%q", args)
			if why, ok := unavailable[name+" "+letters[i:i+1]]; ok {
				require.Contains(t, stderr.String(), "option -"+letters[i:i+1])
				require.Contains(t, stderr.String(), why)
			} else {
				require.Contains(t, stderr.String(), "option --nonsense: unknown", "%q", args)
			}
		}
	}
}

// valueOf are arguments that a number would not do for.
var valueOf = map[string]string{
	"rping S": "64", "ucmatose f": "ip", "ucmatose P": "tcp", "udaddy f": "ipv6", "udaddy P": "udp",
	"udaddy p": "0x111", "mckey p": "0x0111", "rstream f": "name", "rstream T": "b", "riostream f": "ip",
	"riostream T": "v",
}

// unavailable are the options that cannot be had, with a word of why.
var unavailable = map[string]string{
	"mckey M": "InfiniBand", "mckey l": "multicast", "cmtime S": "use the original",
	"cmtime B": "", "cmtime C": "", "cmtime L": "", "cmtime P": "",
}
