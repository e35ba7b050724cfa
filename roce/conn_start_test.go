package roce

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/verbs"
)

// several is a WRITE of n bytes, and the message that tells the peer of it.
func several(to RemoteMemory, mr *verbs.MR, n int, imm uint32) []verbs.SendWR {
	return []verbs.SendWR{
		{Opcode: verbs.WRWrite, RemoteAddr: to.Addr, RKey: to.RKey, SGList: []verbs.SGE{mr.SGE(0, n)}},
		{Opcode: verbs.WRWriteImm, RemoteAddr: to.Addr, RKey: to.RKey, Imm: imm},
	}
}

// Requests that are started together are one operation, which is complete when all of them are, and
// each takes a place of the send queue.
func TestStartSeveral(t *testing.T) {
	everywhere(t, func(t *testing.T, a, b *verbs.Device) {
		ctx := rocetest.Context(t)
		c, s := connPair(t, a, b, ConnConfig{SendDepth: 3})
		target, local := make([]byte, 1<<14), make([]byte, 1<<14)
		rocetest.Fill(local, 5)
		tm, err := s.Register(target, verbs.AccessAll)
		require.NoError(t, err)
		lm, err := c.Register(local, verbs.LocalWrite)
		require.NoError(t, err)
		var last *Pending
		for i := range uint32(10) { // more than fit the queue
			clear(target)
			last, err = c.Start(ctx, several(tm.Remote(), lm, len(local), i)...)
			require.NoError(t, err)
			m, err := s.RecvMsg(ctx)
			require.NoError(t, err)
			require.True(t, m.Written && m.HasImm && m.Imm == i && m.Len() == 0)
			require.Equal(t, local, target)
			require.NoError(t, m.Release())
		}
		require.NoError(t, last.Wait(ctx))
		require.Equal(t, verbs.WCWrite, last.WC().Opcode)
		require.Zero(t, c.Stats().InProgress)

		for _, wrs := range [][]verbs.SendWR{{}, make([]verbs.SendWR, 4)} {
			_, err := c.Start(ctx, wrs...)
			var arg *ArgError
			require.ErrorAs(t, err, &arg)
			require.NotErrorIs(t, err, ErrMaybeDone)
		}
	})
}

// If the device refuses a later request, those before it were sent: the error says so, and their
// places in the queue are free again when the next operation is complete.
func TestStartSeveralPartly(t *testing.T) {
	ctx := rocetest.Context(t)
	c, remote := memoryPair(t, 1<<14, RemoteWrite|RemoteRead)
	mr, err := c.Register(make([]byte, 1<<14), verbs.LocalWrite)
	require.NoError(t, err)
	wrs := several(remote, mr, 100, 0)
	wrs[1].Flags, wrs[1].Inline = verbs.SendInline, make([]byte, 1<<14) // more than may be inline
	_, err = c.Start(ctx, wrs...)
	require.ErrorIs(t, err, ErrMaybeDone)
	require.Equal(t, 1, c.Stats().InProgress)
	require.NoError(t, c.Read(ctx, make([]byte, 100), remote))
	require.Zero(t, c.Stats().InProgress)
}

// A long WRITE and the message that tells of it share a datagram. A WRITE with immediate takes
// three: its first packet is longer than the next ones, and so is the last.
func TestStartSeveralShareDatagram(t *testing.T) {
	ctx := rocetest.Context(t)
	d := rocetest.OpenDevice(t, verbs.Config{})
	if !d.Capabilities().GSO {
		t.Skip("the kernel does not segment")
	}
	c, s := connPair(t, d, rocetest.OpenDevice(t, verbs.Config{}), ConnConfig{})
	tm, err := s.Register(make([]byte, 1<<14), verbs.AccessAll)
	require.NoError(t, err)
	lm, err := c.Register(make([]byte, 1<<14), verbs.LocalWrite)
	require.NoError(t, err)
	for {
		before := d.LinkStats()
		p, err := c.Start(ctx, several(tm.Remote(), lm, 1<<14, 0)...)
		require.NoError(t, err)
		require.NoError(t, p.Wait(ctx))
		m, err := s.RecvMsg(ctx)
		require.NoError(t, err)
		require.NoError(t, m.Release())
		if after := d.LinkStats(); after.TxPackets-before.TxPackets == 5 { // none was sent again, or for another reason
			require.EqualValues(t, 1, after.TxDatagrams-before.TxDatagrams)
			return
		}
	}
}
