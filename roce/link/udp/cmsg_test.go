package udp

import (
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

// Control messages follow each other at the distance that the kernel expects, whatever the
// length of a word: golang.org/x/sys reads them back.
func TestControlMessagesFollow(t *testing.T) {
	b := make([]byte, txControl)
	rest := putCmsg(b, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 1234, 2)
	rest = putCmsg(rest, unix.IPPROTO_IP, unix.IP_TOS, 9, 4)
	require.Empty(t, putCmsg(rest, unix.IPPROTO_IP, unix.IP_TTL, 77, 4))
	ms, err := unix.ParseSocketControlMessage(b)
	require.NoError(t, err)
	require.Len(t, ms, 3)
	require.EqualValues(t, unix.IP_TTL, ms[2].Header.Type)
	require.EqualValues(t, 9, native.Uint32(ms[1].Data))
	info := parseControl(b)
	require.EqualValues(t, 9, info.tclass)
	require.EqualValues(t, 77, info.ttl)
}
