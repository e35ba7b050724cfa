package roce

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/verbs"
)

// memoryPair returns a connection, and memory that the peer shares.
func memoryPair(t *testing.T, n int, access Access) (c *Conn, remote RemoteMemory) {
	ctx := rocetest.Context(t)
	ds := openDevices(t, 2, verbs.Config{})
	c, s := connPair(t, ds[0], ds[1], ConnConfig{})
	_, err := s.Share(ctx, make([]byte, n), access)
	require.NoError(t, err)
	remote, err = c.Shared(ctx)
	require.NoError(t, err)
	return c, remote
}

// What is longer than the peer's memory is refused before anything is sent, by whichever call.
func TestStartBeyondRemoteMemory(t *testing.T) {
	ctx := rocetest.Context(t)
	c, remote := memoryPair(t, 100, RemoteWrite|RemoteRead)
	mr, err := c.Register(bytes.Repeat([]byte{7}, 100), verbs.LocalWrite)
	require.NoError(t, err)
	for name, start := range map[string]func(m RemoteMemory, local ...verbs.SGE) (*Pending, error){
		"write":     func(m RemoteMemory, l ...verbs.SGE) (*Pending, error) { return c.StartWrite(ctx, m, l...) },
		"write imm": func(m RemoteMemory, l ...verbs.SGE) (*Pending, error) { return c.StartWriteImm(ctx, m, 1, l...) },
		"read":      func(m RemoteMemory, l ...verbs.SGE) (*Pending, error) { return c.StartRead(ctx, m, l...) },
	} {
		for _, local := range [][]verbs.SGE{{mr.SGE(0, 100)}, {mr.SGE(0, 11)}, {mr.SGE(0, 5), mr.SGE(5, 6)}, {
			{Length: 1<<32 - 1}, {Length: 2},
		}} {
			_, err := start(remote.Slice(0, 10), local...)
			var arg *ArgError
			require.ErrorAs(t, err, &arg, name)
			require.Equal(t, "local", arg.Arg, name)
		}
	}
	p, err := c.StartWrite(ctx, remote.Slice(20, 10), mr.SGE(0, 4), mr.SGE(4, 6))
	require.NoError(t, err)
	require.NoError(t, p.Wait(ctx))
	got := make([]byte, 100)
	require.NoError(t, c.Read(ctx, got, remote))
	want := make([]byte, 100)
	copy(want[20:], bytes.Repeat([]byte{7}, 10))
	require.Equal(t, want, got)
}

// An atomic operation that the peer would refuse for its address costs an error, and not the
// connection.
func TestAtomicNotAligned(t *testing.T) {
	ctx := rocetest.Context(t)
	c, remote := memoryPair(t, 64, RemoteAtomic)
	mr, err := c.Register(make([]byte, 8), verbs.LocalWrite)
	require.NoError(t, err)
	for name, f := range map[string]func(m RemoteMemory) error{
		"fetch and add":    func(m RemoteMemory) error { _, err := c.FetchAdd(ctx, m, 1); return err },
		"compare and swap": func(m RemoteMemory) error { _, err := c.CompareSwap(ctx, m, 1, 2); return err },
		"start": func(m RemoteMemory) error {
			_, err := c.Start(ctx, verbs.SendWR{
				Opcode: verbs.WRFetchAdd, SGList: []verbs.SGE{mr.SGE(0, 8)}, RemoteAddr: m.Addr, RKey: m.RKey,
			})
			return err
		},
	} {
		for off := 1; off < 8; off++ {
			err := f(remote.Slice(off, 8))
			var arg *ArgError
			require.ErrorAs(t, err, &arg, "%s at %d", name, off)
			require.Contains(t, arg.Arg, "Addr")
			require.NotErrorIs(t, err, ErrMaybeDone)
		}
	}
	require.Equal(t, ConnOpen, c.Stats().State)
	_, err = c.FetchAdd(ctx, remote.Slice(8, 8), 1)
	require.NoError(t, err)
}
