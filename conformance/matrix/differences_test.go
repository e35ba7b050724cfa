package matrix

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDifferences(t *testing.T) {
	row := func(op string, r Result) Row {
		return Row{Kernel: "6.12", Link: "udp", Group: "errors", Op: op, Role: "requester", Result: r}
	}
	then := []Row{row("a", Pass), row("b", Skip), row("c", Pass)}
	require.Empty(t, Differences(then, append([]Row{row("d", Fail)}, then...)))
	require.Equal(t, []string{
		"6.12 udp errors b as requester: pass, and skip before",
		"6.12 udp errors c as requester: missing",
	}, Differences(then, []Row{row("a", Pass), row("b", Pass)}))
}
