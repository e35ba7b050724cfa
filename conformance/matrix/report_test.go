package matrix

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func testRow(link string, size int, res Result) Row {
	return Row{Kernel: "6.1", Group: "operations", Op: "rc SEND", Role: "requester", Link: link, MTU: 1024,
		Size: size, Family: "ipv4", Result: res}
}

func TestMissingRowsComparesLinksByName(t *testing.T) {
	var r Report
	r.Add(testRow("udp", 1, Pass))
	r.Add(testRow("xdp", 1, Fail))
	r.Add(testRow("udp", 2, Pass))
	r.Add(Row{Kernel: "6.1", Group: "guests", Link: "rxe"}) // on no link
	require.Equal(t, []string{"6.1 xdp operations rc SEND as requester mtu 1024 size 2 ipv4"},
		r.MissingRows("6.1", []string{"udp", "xdp"}, nil))
	require.Empty(t, r.MissingRows("6.12", []string{"udp", "xdp"}, nil), "rows of another kernel")
	r.Add(testRow("xdp", 2, Skip)) // left out, but not silently
	require.Empty(t, r.MissingRows("6.1", []string{"udp", "xdp"}, nil))
}

// A link that runs a subset has the rows of the others that do, and all of them are on the links
// that run everything.
func TestMissingRowsOfASubset(t *testing.T) {
	op := func(row Row, op string) Row { row.Op = op; return row }
	var r Report
	r.Add(testRow("udp", 1, Pass))
	r.Add(op(testRow("udp", 1, Pass), "cmtime -c 300"))
	r.Add(op(testRow("packet", 1, Pass), "cmtime -c 100"))
	r.Add(op(testRow("xdp", 1, Pass), "cmtime -c 100"))
	full, subset := []string{"udp"}, []string{"packet", "xdp"}
	require.Empty(t, r.MissingRows("6.1", full, subset))
	require.Len(t, r.MissingRows("6.1", []string{"udp", "packet", "xdp"}, nil), 5)

	r.Add(testRow("xdp", 2, Pass))
	require.Equal(t, []string{"6.1 packet operations rc SEND as requester mtu 1024 size 2 ipv4",
		"6.1 udp operations rc SEND as requester mtu 1024 size 2 ipv4"}, r.MissingRows("6.1", full, subset))
}

func TestTableFoldsLinksThatAgree(t *testing.T) {
	var r Report
	for _, link := range []string{"xdp", "udp"} {
		r.Add(testRow(link, 1, Pass))
		r.Add(testRow(link, 2, Pass))
	}
	require.Regexp(t, `rc SEND +ok 2 +\n`, table(&r))
	r.Add(testRow("xdp", 3, Fail))
	require.Regexp(t, `rc SEND +udp ok 2, xdp 2/3 FAIL +\n`, table(&r))
}

func TestTableSaysWhy(t *testing.T) {
	var r Report
	skipped := testRow("udp", 1, "").skipped("it has none")
	again := testRow("udp", 2, Pass)
	again.Retried = "try 1: lost"
	r.Add(skipped)
	r.Add(again)
	require.Contains(t, table(&r), "operations: it has none (udp 1)")
	require.Contains(t, table(&r), "size 2 ipv4: try 1: lost")
}

func table(r *Report) string {
	var b strings.Builder
	r.WriteTable(&b)
	return b.String()
}
