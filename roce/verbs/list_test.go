package verbs

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

func TestDeviceQPs(t *testing.T) {
	require.Empty(t, (*Device)(nil).QPs())
	require.Empty(t, new(Device).QPs())
	l, err := sim.New(sim.Config{}).Link(netip.MustParseAddr("10.0.0.1"))
	require.NoError(t, err)
	d, err := Open(Config{Link: l})
	require.NoError(t, err)
	require.Empty(t, d.QPs())
	pd, err := d.AllocPD()
	require.NoError(t, err)
	cq, err := d.CreateCQ(10, nil)
	require.NoError(t, err)
	want := map[*QP]bool{}
	for range 5 {
		qp, err := pd.CreateQP(QPInitAttr{Type: ib.RC, SendCQ: cq})
		require.NoError(t, err)
		want[qp] = true
	}
	all := d.QPs()
	require.Len(t, all, 5)
	for i, qp := range all {
		require.True(t, want[qp])
		require.True(t, i == 0 || all[i-1].Num() < qp.Num())
	}
	require.NoError(t, all[2].Close())
	require.Len(t, d.QPs(), 4)
	require.NoError(t, d.Close())
	require.Empty(t, d.QPs())
}
