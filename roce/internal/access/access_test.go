package access

import (
	"errors"
	"io"
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
