package transport

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/stretchr/testify/require"
)

// An engine with a slot makes no queue pair number of another, and refuses those
// that it is asked for: their packets would go elsewhere.
func TestSlotOfQPNumbers(t *testing.T) {
	for _, index := range []uint8{0, 5, 63} {
		slot := ib.Slot{Index: index, Bits: 6}
		table := mem.NewTable(newTestRand(1), mem.Limits{})
		e, err := New(Config{GIDs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, MTU: ib.MTU1024,
			Mem: table, Rand: newTestRand(index), Slot: slot})
		require.NoError(t, err)
		pd, err := table.AllocPD()
		require.NoError(t, err)
		cq, err := e.CreateCQ(64, nil)
		require.NoError(t, err)
		b := &bench{e, pd, cq}
		var both ib.QPN
		for range 1000 {
			n := b.qp(t, ib.RC, nil).Number()
			require.True(t, slot.Has(n), "%v", n)
			require.True(t, n >= minQPN && n != ib.QPNMulticast)
			both |= n
		}
		require.Equal(t, slot.QPN(0x3FFFF), both, "all other bits are random")
		create := func(n ib.QPN) error {
			_, err := e.CreateQP(QPInitAttr{Type: ib.UD, PD: pd, SendCQ: cq, RecvCQ: cq, QPN: n})
			return err
		}
		var ae *ArgError
		require.ErrorAs(t, create(ib.Slot{Index: index ^ 1, Bits: 6}.QPN(0x1234)), &ae)
		require.Contains(t, ae.Error(), "another device")
		require.NoError(t, create(slot.QPN(0x3FF00)))
		require.NoError(t, create(ib.QPNGSI))
	}
}
