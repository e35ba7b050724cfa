package roce

import (
	"testing"

	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// A Pending has the outcome of its operation and of no other: when it is asked again, as a copy
// that was made before the end, after later operations, and after Close.
func TestPendingTwice(t *testing.T) {
	ctx := rocetest.Context(t)
	ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), 2)
	c, s := connPair(t, ds[0], ds[1], ConnConfig{})
	mr, err := c.Register(make([]byte, 64), verbs.LocalWrite)
	require.NoError(t, err)
	sent, err := c.StartSend(ctx, mr.SGE(0, 64))
	require.NoError(t, err)
	early := *sent
	refused, err := c.StartWrite(ctx, RemoteMemory{Addr: 4096, RKey: 77, Len: 64}, mr.SGE(0, 64))
	require.NoError(t, err)
	earlyRefused := *refused
	for range 2 {
		require.NoError(t, sent.Wait(ctx))
		require.NoError(t, early.Wait(ctx))
		for _, p := range []*Pending{refused, &earlyRefused} {
			var status *StatusError
			require.ErrorAs(t, p.Wait(ctx), &status)
			require.Equal(t, verbs.WCRemoteAccessErr, status.WC.Status)
		}
		require.True(t, early.Done())
		require.Equal(t, sent.WC(), early.WC())
		require.NotEqual(t, sent.WC().ID, earlyRefused.WC().ID)
		require.NoError(t, c.Close()) // and all of it again
	}
	require.NoError(t, s.Close())
}

// Elements of a region that is closed, or beyond its end, and what a peer was told of it, name
// nothing: the operation fails for its key or its range, also when another region has the same
// bytes.
func TestRegionThatIsClosed(t *testing.T) {
	ctx := rocetest.Context(t)
	shared := make([]byte, 64)
	for name, c := range map[string]struct {
		sge    func(old, now *verbs.MR) verbs.SGE
		remote func(old, now *verbs.MR) RemoteMemory
		want   verbs.WCStatus
	}{
		"element from before": {sge: func(old, _ *verbs.MR) verbs.SGE { return old.SGE(0, 8) },
			want: verbs.WCLocalProtErr},
		"beyond the end": {sge: func(_, now *verbs.MR) verbs.SGE { return now.SGE(60, 8) },
			want: verbs.WCLocalProtErr},
		"before the start": {sge: func(_, now *verbs.MR) verbs.SGE { return now.SGE(-8, 8) },
			want: verbs.WCLocalProtErr},
		"remote from before": {remote: func(old, _ *verbs.MR) RemoteMemory { return old.Remote() },
			want: verbs.WCRemoteAccessErr},
		"remote slice from before": {
			remote: func(old, _ *verbs.MR) RemoteMemory { return old.Remote().Slice(8, 8) },
			want:   verbs.WCRemoteAccessErr,
		},
	} {
		for _, after := range []bool{false, true} { // what is made after Close, too
			t.Run(name, func(t *testing.T) {
				ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), 2)
				client, server := connPair(t, ds[0], ds[1], ConnConfig{})
				side := client
				if c.remote != nil {
					side = server
				}
				access := verbs.LocalWrite | RemoteWrite
				old, err := side.Register(shared, access)
				require.NoError(t, err)
				local, err := client.Register(make([]byte, 8), verbs.LocalWrite)
				require.NoError(t, err)
				now, err := server.Register(make([]byte, 64), access)
				require.NoError(t, err)
				if side == client {
					now, err = client.Register(shared, access)
					require.NoError(t, err)
				}
				target, err := server.Register(make([]byte, 64), access)
				require.NoError(t, err)
				sge, remote := local.SGE(0, 8), target.Remote()
				fill := func() {
					if c.sge != nil {
						sge = c.sge(old, now)
					} else {
						remote = c.remote(old, now)
					}
				}
				if !after {
					fill()
				}
				require.NoError(t, old.Close())
				if after && c.remote != nil {
					require.Zero(t, old.Remote(), "of which every slice panics, as slicing does")
					return
				}
				if after {
					fill()
				}
				p, err := client.StartWrite(ctx, remote, sge)
				require.NoError(t, err)
				var status *StatusError
				require.ErrorAs(t, p.Wait(ctx), &status)
				require.Equal(t, c.want, status.WC.Status)
				require.Equal(t, make([]byte, 64), target.Bytes())
				require.NoError(t, client.Close())
				require.NoError(t, server.Close())
			})
		}
	}
}

// What a Handshake was given is a value when it has returned: nothing that is done with it later
// reaches a connection.
func TestConnRequestKept(t *testing.T) {
	ctx := rocetest.Context(t)
	ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), 2)
	var kept []*ConnRequest
	l := listenOn(t, ds[1], ListenConfig{Handshake: func(r *ConnRequest) error {
		for _, k := range kept { // of a connection that is set up
			clear(k.PrivateData)
			k.Param.PrivateData = []byte("of another")
		}
		kept = append(kept, r)
		r.Param.PrivateData = append([]byte("answer to "), r.PrivateData[:3]...)
		return nil
	}})
	for _, name := range []string{"one", "two"} {
		got := make(chan *Conn, 1)
		go func() {
			c, err := l.Accept(ctx)
			if err != nil {
				t.Error(err)
			}
			got <- c
		}()
		param := rdmacm.DefaultConnParam()
		param.PrivateData = []byte(name)
		c, err := (&Dialer{ConnConfig: ConnConfig{Device: ds[0], Param: &param}}).DialAddr(ctx, l.Addr())
		require.NoError(t, err)
		s := <-got
		require.Equal(t, "answer to "+name, string(c.PrivateData()[:13]))
		clear(kept[len(kept)-1].Param.PrivateData)
		require.Equal(t, name, string(s.PrivateData()[:3]))
		require.NoError(t, c.Close())
		require.NoError(t, s.Close())
	}
}
