package transport

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

// An engine has as many objects as it says, and no more until one has ended.
func TestObjectLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes 600,000 objects")
	}
	b := newBench(t)
	cq, err := b.e.CreateCQ(1, nil)
	require.NoError(t, err)
	type destroyer interface{ Destroy() error }
	for name, kind := range map[string]struct {
		exist  int
		create func() (destroyer, error)
	}{
		"CQ":      {b.e.cqs, func() (destroyer, error) { return b.e.CreateCQ(1, nil) }},
		"ring CQ": {b.e.cqs, func() (destroyer, error) { return b.e.CreateRingCQ(1, ringMemory(1), nil) }},
		"SRQ": {0, func() (destroyer, error) {
			return b.e.CreateSRQ(b.pd, SRQAttr{MaxWR: 1, MaxSGE: 1}, nil)
		}},
		"AH": {0, func() (destroyer, error) {
			return b.e.CreateAH(b.pd, AddressVector{DGID: gid("192.0.2.9")})
		}},
		"QP": {len(b.e.qps), func() (destroyer, error) {
			return b.e.CreateQP(QPInitAttr{Type: ib.UD, PD: b.pd, SendCQ: cq, RecvCQ: cq,
				Caps: QPCaps{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := make([]destroyer, 0, MaxObjects)
			for range MaxObjects - kind.exist {
				o, err := kind.create()
				require.NoError(t, err)
				objects = append(objects, o)
			}
			_, err := kind.create()
			require.ErrorIs(t, err, ErrLimit)
			for _, o := range objects {
				require.NoError(t, o.Destroy())
				require.ErrorIs(t, o.Destroy(), ErrDestroyed)
			}
			for range 2 {
				o, err := kind.create()
				require.NoError(t, err)
				require.NoError(t, o.Destroy())
			}
		})
	}
}
