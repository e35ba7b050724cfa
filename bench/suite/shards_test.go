package suite

import (
	"testing"

	"github.com/goroce/goroce/bench/node"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/stretchr/testify/require"
)

// Devices with one shard and with two are measured in the same rounds, on every link that can have
// two.
func TestShards(t *testing.T) {
	if testing.Short() || seeds.Race {
		t.Skip("left out with -short and under the race detector: it measures for seconds")
	}
	s := newSuite(t)
	require.NoError(t, s.shards())
	require.Len(t, s.r.Cases, 2*len(shardPoints))
	for _, c := range s.r.Cases {
		for _, f := range []string{"goodput", "goodput, 1 shard", "x 1 shard", "CPU x 1 shard", "messages",
			"packets/datagram"} {
			require.NotNil(t, c.Get(f), "%s: %s", c.Name, f)
			require.Len(t, c.Get(f).Rounds, 2)
			require.Positive(t, c.Get(f).Min, "%s: %s", c.Name, f)
		}
		require.NotNil(t, c.Get("lock waits"))
		require.NotNil(t, c.Get("lock waits, 1 shard"))
	}
	require.ErrorContains(t, node.Do(s.a, "Open", node.OpenArgs{
		LinkArgs: node.LinkArgs{Link: "xdp", Addr: s.net.A.Addr, Port: devicePort}, Shards: 2,
	}), "no 2 shards")
	require.NoError(t, node.Do(s.a, "Close", struct{}{}))
}
