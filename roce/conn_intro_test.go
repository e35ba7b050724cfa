package roce

import (
	"bytes"
	"syscall"
	"testing"

	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

func TestIntroduction(t *testing.T) {
	full := introduce([]byte("hi"), rdmacm.MaxConnectPrivate, 8192)
	require.Len(t, full, rdmacm.MaxConnectPrivate)
	require.Equal(t, []byte{'g', 'R', 'C', 0x1D, 2, 0, 0, 0, 0, 0, 0x20, 0}, full[44:], "the layout")
	n, rest, version := introduction(full)
	require.EqualValues(t, introVersion, version)
	require.Equal(t, 8192, n)
	require.Equal(t, append([]byte("hi"), make([]byte, 54)...), rest)
	require.NotZero(t, full[44], "what was received stays")

	for i := range full { // every truncation
		_, _, version := introduction(full[:i])
		require.Zero(t, version)
	}
	for i := range 5 { // another magic, or version 0
		b := bytes.Clone(full)
		b[44+i] ^= 2
		n, rest, version := introduction(b)
		require.Zero(t, version)
		require.Zero(t, n)
		require.Equal(t, b, rest)
	}
	later := bytes.Clone(full)
	later[48], later[49] = 3, 0xFF
	n, _, version = introduction(later)
	require.True(t, version == 3 && n == 8192, "of a later version")
	copy(later[52:], "\xFF\xFF\xFF\xFF")
	n, _, _ = introduction(later)
	require.Equal(t, maxPeerMessage, n)

	require.Len(t, introduce(make([]byte, 44), rdmacm.MaxConnectPrivate, 1), 56)
	require.Len(t, introduce(make([]byte, 45), rdmacm.MaxConnectPrivate, 1), 45, "the application's leave no room")
}

// Each side knows what the other one takes, and the application's private data is as it was.
func TestMaxMessage(t *testing.T) {
	everywhere(t, func(t *testing.T, a, b *verbs.Device) {
		for _, private := range []int{0, 44, 45, 56} {
			ctx := rocetest.Context(t)
			said := bytes.Repeat([]byte{7}, private)
			var seen []byte
			l := listenOn(t, b,
				ListenConfig{ConnConfig: ConnConfig{RecvBytes: 300}, Handshake: func(r *ConnRequest) error {
					seen = r.PrivateData
					r.Param.PrivateData = []byte("come in")
					return nil
				}})
			param := rdmacm.DefaultConnParam()
			param.PrivateData = said
			d := Dialer{ConnConfig: ConnConfig{Device: a, RecvBytes: 1000, Param: &param}}
			var c, s *Conn
			both(func() {
				var err error
				if s, err = l.Accept(ctx); err != nil {
					t.Error(err)
				}
			}, func() {
				var err error
				c, err = d.DialAddr(ctx, l.Addr())
				require.NoError(t, err)
			})
			padded := append(bytes.Clone(said), make([]byte, 56-private)...)
			require.Equal(t, padded, seen)
			require.Equal(t, padded, s.PrivateData())
			require.Equal(t, append([]byte("come in"), make([]byte, 189)...), c.PrivateData())
			if private > 44 {
				require.Zero(t, c.MaxMessage(), "who has said nothing is told nothing")
				require.Zero(t, s.MaxMessage())
				continue
			}
			require.Equal(t, 300, c.MaxMessage())
			require.Equal(t, 1000, s.MaxMessage())

			// One that is too long costs nothing but an error.
			err := c.Send(ctx, make([]byte, 301))
			require.ErrorIs(t, err, ErrMessageTooLong)
			require.ErrorIs(t, err, syscall.EMSGSIZE)
			require.NotErrorIs(t, err, ErrMaybeDone)
			var long *MessageTooLongError
			require.ErrorAs(t, err, &long)
			require.Equal(t, MessageTooLongError{301, 300}, *long)
			mr, err := c.Register(make([]byte, 400), 0)
			require.NoError(t, err)
			_, err = c.StartSend(ctx, mr.SGE(0, 200), mr.SGE(200, 101))
			require.ErrorIs(t, err, ErrMessageTooLong)
			both(func() {
				if n, err := s.Recv(ctx, make([]byte, 400)); n != 300 || err != nil {
					t.Error(n, err)
				}
			}, func() {
				p, err := c.StartSend(ctx, mr.SGE(0, 200), mr.SGE(200, 100))
				require.NoError(t, err)
				require.NoError(t, p.Wait(ctx))
			})
		}
	})
}

func FuzzIntroduction(f *testing.F) {
	f.Add(introduce(nil, rdmacm.MaxConnectPrivate, 8192))
	f.Add([]byte("gRC\x1d\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		was := bytes.Clone(b)
		n, rest, version := introduction(b)
		if !bytes.Equal(b, was) || len(rest) != len(b) || n < 0 || n > maxPeerMessage || version == 0 && n != 0 {
			t.Errorf("%x gave %d, %x, %d", was, n, rest, version)
		}
	})
}
