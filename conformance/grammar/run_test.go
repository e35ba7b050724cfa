package grammar

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/drill"
)

var udpPackets = flag.Uint64("grammar.udp", 3000, "packets of TestUDP")

// The whole device, with its communication manager, in virtual time.
func TestDevice(t *testing.T) {
	for n := range uint64(3) {
		res, err := Run(t.Context(), FromSeed(n), drill.NewEngine(), RunConfig{Packets: 3000, CM: true})
		require.NoError(t, err, "seed %d", n)
		require.NotZero(t, res.Heard)
		t.Logf("seed %d: %+v", n, res)
	}
}

// The same over the udp link, on one device for all of it.
func TestUDP(t *testing.T) {
	target, err := drill.NewUDP(drill.LoopbackUDP())
	require.NoError(t, err)
	defer target.Close()
	res, err := Run(t.Context(), FromSeed(1), target, RunConfig{Packets: *udpPackets, CM: true})
	require.NoError(t, err)
	t.Logf("%+v", res)
}
