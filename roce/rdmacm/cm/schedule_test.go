package cm

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

// TestRetrySchedule: a REQ goes out 10 times, after 500 ms and then twice as long
// from try to try, up to what the REQ grants the peer; an MRA postpones the next one
// by its service time, and the tries begin anew.
func TestRetrySchedule(t *testing.T) {
	r := newRig(t)
	r.reach(ReqSent)
	times := []int64{}
	step := func() string {
		at, ok := r.n.NextTimeout()
		require.True(t, ok)
		times = append(times, at/1e6)
		r.now = at
		r.n.HandleTimeout(at)
		return r.out()
	}
	require.Equal(t, "REQ", step())
	require.Equal(t, "REQ", step())
	r.in(mad.AttrMRA, &mad.MRA{LocalCommID: r.id, RemoteCommID: r.local(), ServiceTimeout: 18}) // 1073 ms
	for range DefaultTries - 1 {
		require.Equal(t, "REQ", step())
	}
	require.Equal(t, "[unreachable] REJ(2 timeout)", step())
	require.Equal(t, []int64{500, 1500, 3073, 4073, 6073, 10073, 14073, 18073, 22073, 26073, 30073, 34073}, times)
	require.Equal(t, Counts{}, r.n.Counts())
}

// TestRetryInterval: an interval that the owner asks for stays what it is, for a
// REQ and for a SIDR_REQ.
func TestRetryInterval(t *testing.T) {
	for _, ask := range []func(r *rig) error{
		func(r *rig) error {
			_, err := r.n.Connect(r.now, Request{
				Local: r.n.addr, Remote: r.pu.addr, Service: service, QPN: 5, MTU: ib.MTU1024, Tries: 4, RetryNs: 100e6,
			}, nil)
			return err
		},
		func(r *rig) error {
			_, err := r.n.Resolve(r.now,
				Lookup{Local: r.n.addr, Remote: r.pu.addr, Service: sidrService, Tries: 4, RetryNs: 100e6}, nil)
			return err
		},
	} {
		r := newRig(t)
		require.NoError(t, ask(r))
		r.out()
		var times []int64
		for at, ok := r.n.NextTimeout(); ok; at, ok = r.n.NextTimeout() {
			times = append(times, at/1e6)
			r.now = at
			r.n.HandleTimeout(at)
		}
		require.Contains(t, r.out(), "[unreachable]")
		require.Equal(t, []int64{100, 200, 300, 400}, times)
	}
}

// TestAnswerTimeout: the peer repeats its REP about as often as we our REQ, but
// neither more often than by default nor less often than Linux.
func TestAnswerTimeout(t *testing.T) {
	for _, c := range []struct {
		retryNs int64
		want    ib.TimeoutCode
	}{{1, 17}, {DefaultRetryNs, 17}, {6e8, 18}, {2e9, 19}, {3e9, 20}, {1e12, 20}} {
		require.Equal(t, c.want, (&Conn{retryNs: c.retryNs}).answerTimeout(), "%d ns", c.retryNs)
	}
}

// TestREPSchedule: to a peer that was never heard of a REP goes four times in all, in the
// time that ten of them would take at the interval in which the REQ says that the peer answers.
func TestREPSchedule(t *testing.T) {
	for timeout, want := range map[ib.TimeoutCode][]int64{
		0:  {500, 1000, 3000, 5000},
		18: {500, 1500, 5500, 9500}, // 1.07 s
		31: {500, 1500, 16500, 31500},
	} {
		r := newRig(t)
		_, err := r.n.Listen(service, netip.Addr{}, 0)
		require.NoError(t, err)
		m := r.req()
		m.LocalCMTimeout = timeout
		require.Equal(t, "[request]", r.in(mad.AttrREQ, m))
		require.NoError(t, r.c.Accept(r.now, Accept{QPN: 555}))
		require.Equal(t, "REP", r.out())
		times := []int64{}
		for out := ""; !strings.Contains(out, "[unreachable]"); out = r.out() {
			at, ok := r.n.NextTimeout()
			require.True(t, ok)
			times = append(times, at/1e6)
			r.now = at
			r.n.HandleTimeout(at)
		}
		require.Equal(t, want, times, "timeout code %d", timeout)
	}
}

// TestTimewaitLasts: it lasts for as long as a packet of the connection may be on its way, by
// the ACK timeout of the side that made it.
func TestTimewaitLasts(t *testing.T) {
	for code, wantMs := range map[ib.TimeoutCode]int64{0: 1000, 14: 1000, 18: 2147, 31: 60_000} {
		for _, active := range []bool{true, false} {
			r := newRig(t)
			if active {
				c, err := r.n.Connect(r.now, Request{
					Local: r.n.addr, Remote: r.pu.addr, Service: service, QPN: 5, MTU: ib.MTU1024, AckTimeout: code,
				}, nil)
				require.NoError(t, err)
				r.c = c
				r.in(mad.AttrREP, r.rep())
				require.NoError(t, c.Ready(r.now, nil))
			} else {
				_, err := r.n.Listen(service, netip.Addr{}, 0)
				require.NoError(t, err)
				m := r.req()
				m.Primary.AckTimeout = code
				r.in(mad.AttrREQ, m)
				require.NoError(t, r.c.Accept(r.now, Accept{QPN: 555}))
				r.in(mad.AttrRTU, &mad.RTU{LocalCommID: r.id, RemoteCommID: r.local()})
			}
			require.Equal(t, Established, r.c.State())
			r.in(mad.AttrDREQ, r.dreq(0))
			require.Equal(t, Timewait, r.c.State())
			at, ok := r.n.NextTimeout()
			require.True(t, ok)
			require.Equal(t, wantMs, (at-r.now)/1e6, "code %d, active %t", code, active)
		}
	}
}
