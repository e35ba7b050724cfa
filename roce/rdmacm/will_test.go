package rdmacm_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

type will struct {
	id       uint32
	src, dst netip.Addr
	packet   []byte // nil: taken back
}

// willBook writes down what it is told.
type willBook chan will

// keep makes it the keeper of a device.
func (b willBook) keep(t *testing.T, d *verbs.Device) {
	ch, err := rdmacm.CreateEventChannel(d)
	require.NoError(t, err)
	require.NoError(t, core.Open(ch).KeepWills(b.put, b.drop))
	require.NoError(t, ch.Close())
}

func (b willBook) put(id uint32, src, dst netip.Addr, packet []byte) {
	b <- will{id, src, dst, append([]byte(nil), packet...)}
}
func (b willBook) drop(id uint32) { b <- will{id: id} }

// execute sends a will as a process does that has nothing to do with the device.
func (w *will) execute(t *testing.T) {
	c, err := net.DialUDP("udp", &net.UDPAddr{IP: w.src.AsSlice()}, &net.UDPAddr{IP: w.dst.AsSlice(), Port: ib.UDPPort})
	require.NoError(t, err)
	defer c.Close()
	port := c.LocalAddr().(*net.UDPAddr).Port
	icrc := ib.NewICRC(ib.Flow{Src: w.src, Dst: w.dst, SrcPort: uint16(port), DstPort: ib.UDPPort})
	b := append(w.packet, 0, 0, 0, 0)
	ib.PutICRC(b[len(b)-ib.ICRCBytes:], icrc.Checksum(0, w.packet))
	_, err = c.Write(b)
	require.NoError(t, err)
}

// The peer of a process that has died is told by somebody else.
func TestWillTellsPeer(t *testing.T) {
	ctx := rocetest.Context(t)
	s, c := rocetest.NewPeer(t, verbs.Config{}), rocetest.NewPeer(t, verbs.Config{})
	book, none := make(willBook, 8), make(willBook, 8)
	book.keep(t, c.D)
	none.keep(t, c.D) // the first one stays
	ch, err := rdmacm.CreateEventChannel(c.D)
	require.NoError(t, err)
	lid := s.Listen(t, rdmacm.PortSpaceTCP, 7471)
	connect := func() (here, there *rdmacm.ID) {
		cid := c.Resolve(t, ctx, rdmacm.PortSpaceTCP, lid.LocalAddr())
		return cid, c.Connect(t, ctx, cid, s)
	}
	connect()
	w := <-book
	require.Equal(t, c.D.Addrs()[0], w.src)
	require.Equal(t, s.D.Addrs()[0], w.dst)
	w.execute(t)
	s.Next(t, ctx, rdmacm.EventDisconnected)
	require.Empty(t, book, "the connection has not ended here")

	cid, _ := connect()
	w = <-book
	require.NoError(t, cid.Disconnect(nil))
	s.Next(t, ctx, rdmacm.EventDisconnected)
	c.Next(t, ctx, rdmacm.EventDisconnected)
	require.Equal(t, will{id: w.id}, <-book)

	connect()
	w = <-book
	require.NoError(t, c.D.Close())
	all := []will{<-book, <-book}
	require.Contains(t, all, will{id: w.id})
	require.Empty(t, none)
	require.ErrorIs(t, core.Open(ch).KeepWills(book.put, book.drop), verbs.ErrClosed)
}

// It is all peers that are awaited.
func TestAllAreTold(t *testing.T) {
	a, b := rocetest.OpenDevice(t, verbs.Config{}), rocetest.OpenDevice(t, verbs.Config{})
	_, err := rdmacm.WillsOf(b) // it answers from now on
	require.NoError(t, err)
	told, left, err := rdmacm.TellAll(a, b.Addrs()[0], 3)
	require.NoError(t, err)
	select {
	case <-told:
	case <-rocetest.Context(t).Done():
		t.Fatal("nobody answers")
	}
	require.Zero(t, left())
}
