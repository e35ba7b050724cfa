package cm

import (
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

// FuzzHandleMAD sends arbitrary datagrams to connections in all states: no panic,
// and the accounts stay right.
func FuzzHandleMAD(f *testing.F) {
	f.Add(uint8(mad.AttrREQ), uint8(3), []byte("seed"))
	f.Add(uint8(mad.AttrREJ), uint8(5), make([]byte, 232))
	f.Fuzz(func(t *testing.T, at, state uint8, body []byte) {
		r := newRig(t)
		r.reach(State(state % uint8(numStates)))
		var b [mad.Bytes]byte
		h := mad.CMHeader(mad.Attribute(at), r.tid)
		data := h.Put(&b)
		copy(data[:], body)
		r.n.HandleMAD(r.now, r.pu.addr, r.n.addr, b[:])
		r.n.HandleMAD(r.now, r.pu.addr, r.n.addr, body)
		r.out()
		for range 100 {
			at, ok := r.n.NextTimeout()
			if !ok {
				break
			}
			r.n.HandleTimeout(at)
			r.out()
		}
		for _, c := range r.n.byID {
			c.Destroy(r.now)
		}
		for at, ok := r.n.NextTimeout(); ok; at, ok = r.n.NextTimeout() {
			r.n.HandleTimeout(at)
			r.out()
		}
		r.out()
		c := r.n.Counts()
		c.Listeners = 0
		require.Equal(t, Counts{}, c)
	})
}
