package roce

import (
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// Datagrams for the communication manager that find no receive buffer are counted by it.
func TestCMDatagramsWithoutBufferAreCounted(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1})
	ds := rocetest.SimDevices(t, f, 2)
	l := listenOn(t, ds[1], ListenConfig{})
	c := rocetest.PeerOn(t, ds[0])
	s := access.Shard(ds[1])
	require.NoError(t, s.Command(func(now int64) error {
		qp := s.Service().(interface{ QP() *transport.QP }).QP()
		// Takes the buffers away.
		if err := qp.Modify(now, transport.QPAttr{State: transport.StateReset}, transport.AttrState); err != nil {
			return err
		}
		return s.Service().(interface{ Activate(now int64) error }).Activate(now)
	}))
	clients(t, c, 5, l.Addr())
	f.RunFor(1e6)
	st := rdmacm.CountersOf(ds[1])
	requests, _ := st.Message(mad.AttrREQ)
	require.Zero(t, requests)
	require.EqualValues(t, 5, st.DropRecv)
	require.EqualValues(t, 5, ds[1].Counters().DropNoRecv)
}
