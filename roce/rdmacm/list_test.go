package rdmacm

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

// The words of a refusal that a program makes itself.
func TestRejectedErrorText(t *testing.T) {
	for want, err := range map[string]error{
		"roce: connection refused: nobody listens there (CM reject: invalid service ID, 8)": &RejectedError{
			Reason: mad.RejectInvalidServiceID,
		},
		"connection refused: the peer has no room for another one at 10.0.0.2:8": &RejectedError{
			Reason: mad.RejectNoResources, Remote: netip.MustParseAddrPort("10.0.0.2:8"),
		},
		"roce: connection refused: nobody listens there (CM SIDR": &RejectedError{
			SIDRStatus: mad.SIDRUnsupportedService, datagram: true,
		},
		"roce: lookup refused there (CM SIDR": &RejectedError{
			SIDRStatus: mad.SIDRRejected, datagram: true,
		},
	} {
		require.Contains(t, err.Error(), want)
	}
}

// The events of an ID leave the queue together, and the others stay in order.
func TestEventList(t *testing.T) {
	var q eventList
	ids := []*ID{{}, {}, {}}
	var want []*Event
	for i := range 30 {
		e := &Event{ID: ids[i%3], UD: UDParam{QPN: 1}}
		q.push(e)
		if i%3 != 1 {
			want = append(want, e)
		}
	}
	for range 10 {
		require.NotNil(t, q.take(ids[1]))
	}
	require.Nil(t, q.take(ids[1]))
	require.Equal(t, 20, q.len)
	for _, e := range want {
		require.Same(t, e, q.head)
		require.Same(t, e, q.take(q.head.ID))
	}
	require.Equal(t, eventList{}, q)
}
