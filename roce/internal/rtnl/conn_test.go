package rtnl

import (
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"github.com/stretchr/testify/require"
)

// told is a kernel that answers nothing to anything, and notes what it is asked.
type told struct{ calls []string }

func (k *told) Send(m netlink.Message) (netlink.Message, error) {
	k.calls = append(k.calls, "send")
	return m, nil
}

func (k *told) SetReadDeadline(time.Time) error {
	k.calls = append(k.calls, "deadline")
	return nil
}

func (k *told) Receive() ([]netlink.Message, error) {
	k.calls = append(k.calls, "receive")
	return nil, nil
}

func (k *told) Close() error { return nil }

// The time of the request is not the answer's: the kernel may hold it up while it changes other
// interfaces.
func TestRequestTakesItsTime(t *testing.T) {
	k := &told{}
	_, err := (&Conn{k}).Links()
	require.NoError(t, err)
	require.Equal(t, []string{"send", "deadline", "receive"}, k.calls)
}
