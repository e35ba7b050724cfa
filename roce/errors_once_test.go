package roce

import (
	"context"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// The error of each call of a Conn says once which call failed, between which addresses, and why.
func TestErrorsSayOnce(t *testing.T) {
	ctx := rocetest.Context(t)
	over, cancel := context.WithCancel(ctx)
	cancel()
	c, remote := memoryPair(t, 64, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead|verbs.RemoteAtomic)
	odd, short := remote, remote
	odd.Addr++
	short.Len = 3
	two := func(_ any, err error) error { return err }
	long := make([]byte, 65)
	at := c.LocalAddr().String() + "->" + c.RemoteAddr().String() + ": "
	for _, tt := range []struct {
		want string
		err  error
	}{
		{"write " + at + "b: 65 bytes, and the peer's memory has 64", c.Write(ctx, long, remote)},
		{"read " + at + "b: 65 bytes, and the peer's memory has 64", c.Read(ctx, long, remote)},
		{"fetch and add " + at + "remote: 8 bytes, and", two(c.FetchAdd(ctx, short, 1))},
		{"compare and swap " + at + "remote.Addr: 0x", two(c.CompareSwap(ctx, odd, 1, 2))},
		{"start write " + at + "local: 4 bytes, and", two(c.StartWrite(ctx, short, verbs.SGE{Length: 4}))},
		{"start read " + at + "local: 4 bytes, and", two(c.StartRead(ctx, short, verbs.SGE{Length: 4}))},
		{"start " + at + "post send: opcode not supported", two(c.Start(ctx, verbs.SendWR{Opcode: 200}))},
		{"register " + at + "Access: unknown flags", two(c.Register(long, 1<<31))},
		{"send " + at + "a message of 1048576 bytes, and the peer takes at most", c.Send(ctx, make([]byte, 1<<20))},
		{"send " + at + "context canceled", c.Send(over, long)},
		{"dial 10.0.0.7:7: context canceled", two(Dial(over, "10.0.0.7:7"))},
		{"dial 10.0.0.7:7: RecvDepth: -1 is not in", two((&Dialer{ConnConfig: ConnConfig{RecvDepth: -1}}).DialAddr(
			ctx, netip.MustParseAddrPort("10.0.0.7:7")))},
	} {
		require.ErrorContains(t, tt.err, "roce: "+tt.want)
		rocetest.SaysOnce(t, tt.err)
	}
	require.NoError(t, c.Close())
	for _, tt := range []struct {
		want string
		err  error
	}{
		{"send " + at + "closed", c.Send(ctx, long)},
		{"register " + at + "closed", two(c.Register(long, verbs.LocalWrite))},
	} {
		require.EqualError(t, tt.err, "roce: "+tt.want)
		require.ErrorIs(t, tt.err, ErrClosed)
	}
}

// A message that does not fit says how long it is, and can be received by the next call.
func TestShortBufferSaysLength(t *testing.T) {
	ctx := rocetest.Context(t)
	ds := openDevices(t, 2, verbs.Config{})
	a, b := connPair(t, ds[0], ds[1], ConnConfig{})
	require.NoError(t, a.Send(ctx, []byte("hello")))
	n, err := b.Recv(ctx, make([]byte, 1))
	require.Equal(t, 5, n)
	require.ErrorContains(t, err, ": short buffer: the message has 5 bytes, b has 1; the next call can receive it")
}
