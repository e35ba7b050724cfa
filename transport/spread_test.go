package transport_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
)

// watchLight tells how the last packet of each end left, and how often that has changed.
func watchLight(p *pair) (light func(end int) bool, changes func(end int) int) {
	last, n := [2]bool{true, true}, [2]int{}
	p.onSend = func(f *flight) {
		i := f.from.i
		if f.path.Light != last[i] {
			require.Nil(p.t, f.path.Link, "the link is to choose anew")
			last[i] = f.path.Light
			n[i]++
		}
		f.path.Link = "prepared by the link"
	}
	return func(end int) bool { return last[end] }, func(end int) int { return n[end] }
}

// A connection with short messages shares a port with others. The first long one, with nothing on
// its way, leaves by a port of its own, as does all that follows; acknowledgements alone are no
// reason.
func TestLight(t *testing.T) {
	p := newPair(t, pairConfig{})
	light, changes := watchLight(p)
	a, b := p.connect(linkConfig{})
	for range 100 {
		a.post(a.write(0, 0, 16<<10-1))
		b.post(b.write(0, 0, 8))
		p.run()
	}
	a.post(a.read(0, 0, 100))
	p.run()
	require.True(t, light(0))
	require.True(t, light(1))
	a.post(a.write(0, 0, 16<<10))
	p.run()
	require.False(t, light(0))
	require.True(t, light(1))
	a.post(a.write(0, 0, 8))
	b.post(b.write(0, 0, 8))
	p.run()
	require.False(t, light(0), "it does not come back")
	require.Equal(t, 1, changes(0))
	require.Zero(t, changes(1))

	// Nor with another address vector.
	attr := a.attr
	attr.AV.HopLimit++
	require.NoError(t, a.qp.Modify(p.now, transport.QPAttr{State: transport.StateSQD}, transport.AttrState))
	require.NoError(t, a.qp.Modify(p.now, attr, transport.AttrAV))
	require.NoError(t, a.qp.Modify(p.now, transport.QPAttr{State: transport.StateRTS}, transport.AttrState))
	a.post(a.write(0, 0, 8))
	p.run()
	require.False(t, light(0))
}

// Of a READ it is the answer that counts, which is the other end's.
func TestLightRead(t *testing.T) {
	p := newPair(t, pairConfig{})
	light, _ := watchLight(p)
	a, _ := p.connect(linkConfig{})
	a.post(a.read(0, 0, 16<<10))
	p.run()
	require.True(t, light(0))
	require.False(t, light(1))
}

// While something is on its way the port stays, since the packets of a connection could overtake
// each other: until the connection has carried much.
func TestLightBusy(t *testing.T) {
	p := newPair(t, pairConfig{})
	light, _ := watchLight(p)
	a, _ := p.connect(linkConfig{})
	const n, times = 32 << 10, 1 << 20 / (32 << 10)
	for range times - 1 {
		a.post(a.write(0, 0, 8))
		a.post(a.write(0, 0, n))
		p.run()
		require.True(t, light(0))
	}
	a.post(a.write(0, 0, 8))
	a.post(a.write(0, 0, n))
	p.run()
	require.False(t, light(0), "that was enough")
}

// What is overtaken is lost on UC: it begins by a port of its own.
func TestLightUC(t *testing.T) {
	p := newPair(t, pairConfig{})
	light, _ := watchLight(p)
	a, _ := p.connect(linkConfig{typ: ib.UC})
	a.post(a.write(0, 0, 8))
	p.run()
	require.False(t, light(0))
}
