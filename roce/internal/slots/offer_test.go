//go:build linux

package slots

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

const nobody = 65534

// visit connects to the Unix socket of an address.
func visit(t testing.TB, a Address) int {
	t.Helper()
	c, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Connect(c, &unix.SockaddrUnix{Name: a.name()}))
	return c
}

// Who connects can do nothing to those who have the address: bytes and descriptors that it sends
// are not read, and it is not waited for.
func TestHostileClients(t *testing.T) {
	a := address()
	l := lease(t, a)
	file, err := os.Open("/dev/null")
	require.NoError(t, err)
	defer file.Close()
	before := descriptors(t)
	var conns []int
	for i := range 300 {
		c := visit(t, a)
		conns = append(conns, c)
		switch i % 4 {
		case 0: // silent, for ever
		case 1:
			_ = unix.Sendmsg(c, make([]byte, 1000), nil, nil, unix.MSG_NOSIGNAL) // it may be closed already
		case 2:
			fds := make([]int, 200)
			for k := range fds {
				fds[k] = int(file.Fd())
			}
			_ = unix.Sendmsg(c, []byte{1}, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
		default:
			unix.Close(c)
			conns = conns[:len(conns)-1]
		}
	}
	require.Equal(t, 1, lease(t, a).slot)
	for _, c := range conns {
		unix.Close(c)
	}
	require.NoError(t, l.Hear(0))
	l.Close()
	require.Eventually(t, func() bool { return descriptors(t) <= before }, time.Minute, time.Millisecond,
		"and nothing is kept of them")
}

// Another user's process gets no descriptor, and gains nothing by having the name of an address.
func TestForeign(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be two users")
	}
	a := address()
	l := lease(t, a)
	other := start(t, a, nobody)
	require.Contains(t, other.say("open"), unix.EADDRINUSE.Error())
	l.Close()

	require.Equal(t, "ok", other.say("squat %s", strings.TrimPrefix(a.name(), "\x00")))
	_, err := Open([]Address{a})
	require.ErrorIs(t, err, ErrForeign)
	require.ErrorContains(t, err, "user 65534")

	// The side that accepts checks, too.
	b := address()
	s, err := found(b, true, "")
	require.NoError(t, err)
	defer closeAll(s[:])
	srv, err := serve(s)
	require.NoError(t, err)
	defer srv.close()
	require.Contains(t, other.say("ask %d", b.Port), "error")
}

// What is no offer is refused, with its descriptors closed.
func TestBadOffers(t *testing.T) {
	a := address()
	s, err := found(a, true, "")
	require.NoError(t, err)
	defer closeAll(s[:])
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(null)
	swapped := append([]int(nil), s[:]...)
	swapped[groupAt+3] = null
	loose, err := unix.MemfdCreate(memoryName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	require.NoError(t, err)
	defer unix.Close(loose)
	require.NoError(t, unix.Ftruncate(loose, fileBytes))
	unsealed := append([]int(nil), s[:]...)
	unsealed[memoryAt] = loose
	for what, c := range map[string]struct {
		data []byte
		fds  []int
		want error
	}{
		"good":            {offer(), s[:], nil},
		"nothing":         {nil, nil, errAgain},
		"no descriptors":  {offer(), nil, ErrUnsupported},
		"too few":         {offer(), s[:numFDs-1], ErrUnsupported},
		"too many":        {offer(), append(append([]int(nil), s[:]...), null), ErrUnsupported},
		"wrong kind":      {offer(), swapped, ErrUnsupported},
		"not sealed":      {offer(), unsealed, ErrUnsupported},
		"other bytes":     {[]byte("goroce slotz\x00\x40\x00\x01"), s[:], ErrUnsupported},
		"other slots":     {append([]byte(offerMagic), 0, 32, 0, numFDs), s[:], ErrUnsupported},
		"too short":       {offer()[:offerBytes-1], s[:], ErrUnsupported},
		"too long":        {append(offer(), 0), s[:], ErrUnsupported},
		"longer than any": {make([]byte, 1000), s[:], ErrUnsupported},
	} {
		t.Run(what, func(t *testing.T) {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
			require.NoError(t, err)
			before := descriptors(t)
			if c.data != nil {
				var oob []byte
				if c.fds != nil {
					oob = unix.UnixRights(c.fds...)
				}
				require.NoError(t, unix.Sendmsg(pair[0], c.data, oob, nil, 0))
			}
			unix.Close(pair[0])
			fds, err := take(pair[1])
			unix.Close(pair[1])
			if c.want == nil {
				require.NoError(t, err)
				closeAll(fds[:])
			} else {
				require.ErrorIs(t, err, c.want)
			}
			require.Equal(t, before-2, descriptors(t))
		})
	}
}

// Control messages of any bytes give no descriptors, or what they say; none of it
// panics. They are not closed: numbers out of the air may be those of the test.
func FuzzOffer(f *testing.F) {
	f.Add(offer(), unix.UnixRights(1, 2, 3))
	f.Fuzz(func(t *testing.T, data, oob []byte) {
		n := len(rights(oob))
		require.LessOrEqual(t, n, len(oob)/4)
		if checkOffer(data, n) == nil {
			require.Equal(t, offer(), data)
			require.Equal(t, numFDs, n)
		}
	})
}
