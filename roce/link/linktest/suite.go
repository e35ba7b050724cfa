package linktest

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/roce/link"
	"github.com/stretchr/testify/require"
)

// Pair is two links that reach each other, from the first address of each.
type Pair struct {
	A, B link.Link
	// Hops is by how much the hop limit is smaller on arrival.
	Hops uint8
	// InB, if set, runs f where B can open sockets: in its network namespace.
	InB func(f func())
	// NeverResolves is an address on the network that nobody has, invalid if the links cannot tell.
	NeverResolves netip.Addr
}

// Run runs the suite. open makes a pair, which Run closes. The tests share it, because opening and
// closing take longer than most of them; one that fails does not leave it to the next.
func Run(t *testing.T, open func(t *testing.T) Pair) {
	var p *Pair
	shut := func() {
		if p != nil {
			require.NoError(t, p.A.Close())
			require.NoError(t, p.B.Close())
			p = nil
		}
	}
	defer shut()
	for _, c := range []struct {
		name string
		f    func(t *testing.T, p Pair)
	}{
		{"getters", testGetters}, // first: nothing has been received
		{"single packets", testSingle},
		{"runs", testRuns},
		{"mixed runs", testMixed},
		{"many paths", testManyPaths},
		{"both ways", testBothWays},
		{"traffic class", testTrafficClass},
		{"mark", testMark},
		{"wrong ICRC", testWrongICRC},
		{"drops", testDrops},
		{"lost memory", testLostMemory},
		{"wake", testWake},
		{"no allocation", testNoAllocation},
		{"multicast", testMulticast},
		{"no room", testNoRoom},
		{"close", testClose}, // last
	} {
		ok := t.Run(c.name, func(t *testing.T) {
			if p == nil {
				fresh := open(t)
				p = &fresh
			}
			c.f(t, *p)
		})
		if !ok {
			shut()
		}
	}
}

// maxPayload is the payload of a full packet of the pair.
func (p *Pair) maxPayload() int { return min(p.A.MTU(), p.B.MTU()).Bytes() }
