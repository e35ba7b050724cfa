package access

import (
	"errors"
	"io"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/core"
)

// object is one whose inside tells why it ended.
type object struct {
	Device
	why error
}

func (o *object) Core() core.Of[*object] { return core.New(o) }
func (o *object) End(why error)          { o.why = why }

func TestEndDevice(t *testing.T) {
	var o object
	EndDevice(&o, io.EOF)
	require.Equal(t, io.EOF, o.why)
}

// The text behind that of another error does not name the package again; there may be no reason.
func TestPlain(t *testing.T) {
	require.Equal(t, "no reason given", Plain(nil))
	require.Equal(t, "closed", Plain(errors.New("roce: closed")))
	require.Equal(t, "EOF", Plain(io.EOF))
}

// A cause does not say again what the error around it says: the operation, an address.
func TestWithin(t *testing.T) {
	here, there := netip.MustParseAddrPort("192.0.2.1:5"), netip.MustParseAddrPort("[2001:db8::1]:7")
	for cause, want := range map[string]string{
		"roce: dial: b: 9 bytes":                                   "b: 9 bytes",
		"roce: post send: wr: is nil":                              "post send: wr: is nil",
		"roce: connect [2001:db8::1]:7: no answer":                 "no answer",
		"roce: connect [2001:db8::1]:8: no answer":                 "connect [2001:db8::1]:8: no answer",
		"roce: open 192.0.2.1: taken (see ip addr)":                "taken (see ip addr)",
		"roce: no route to 2001:db8::1: no such zone":              "no route: no such zone",
		"roce: resolve [2001:db8::1]:7: no route to 2001:db8::1: ": "no route: ",
		"roce: refused: nobody listens at [2001:db8::1]:7 (CM)":    "refused: nobody listens there (CM)",
		"roce: a: b": "a: b",
		"closed":     "closed",
	} {
		require.Equal(t, want, Within(errors.New(cause), "dial", here, there, netip.AddrPort{}))
	}
	require.Equal(t, "no reason given", Within(nil, "dial"))
}
