package ibverbs

import (
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	o, err := parse(RC, nil)
	require.NoError(t, err)
	require.Equal(t,
		&Options{Port: 18515, Size: 4096, MTU: ib.MTU1024, RxDepth: 500, Iters: 1000, QPs: 1, QPTimeout: 14}, o)

	o, err = parse(UD, strings.Fields("host -p 1 -n 5 -r 7 -e -g 1 -l 0 -c"))
	require.NoError(t, err)
	require.Equal(t, &Options{Kind: UD, Host: "host", Port: 1, Size: 1024, MTU: ib.MTU1024, RxDepth: 7,
		Iters: 5, QPs: 1, Events: true, GIDIndex: 1, Check: true, QPTimeout: 14}, o)

	o, err = parse(SRQ, strings.Fields("-m 4096 -s 100 --qp-timeout 18"))
	require.NoError(t, err)
	require.Equal(t, &Options{
		Kind: SRQ, Port: 18515, Size: 100, MTU: ib.MTU4096, RxDepth: 500, Iters: 1000, QPs: 16, QPTimeout: 18,
	}, o)
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		args string
		want string
	}{
		{RC, "-m 1500", "not one of 256"},
		{RC, "-q 2", "unknown"},
		{RC, "-t", "timestamps"},
		{RC, "a b", "one host"},
		{UD, "-m 1024", "unknown"},
		{UC, "--qp-timeout 18", "unknown"},
		{RC, "--qp-timeout 32", "not within"},
		{SRQ, "-q 256", "not within"},
		{SRQ, "-q 8 -r 4", "too small"},
		{UC, "-p 65536", "not within"},
		{UC, "-s 0", "not within"},
	} {
		_, err := parse(c.kind, strings.Fields(c.args))
		require.ErrorContains(t, err, c.want)
	}
	for _, k := range kinds {
		_, err := parse(k, []string{"--help"})
		var text *tool.Text
		require.ErrorAs(t, err, &text)
		require.Contains(t, text.Text, "roce "+k.Name()+" <host>")
	}
}
