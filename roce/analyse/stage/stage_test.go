package stage

import (
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// set makes a stage that is closed with the test.
func set(t *testing.T, cfg Config) *Stage {
	t.Helper()
	s, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// What was lost, and what was doubled, is known packet by packet, also where all are sent again.
func TestFates(t *testing.T) {
	s := set(t, Config{Tuning: [2]transport.Tuning{{GoBackN: true}, {GoBackN: true}}})
	_, err := s.Do(0, s.Write(0, 64))
	require.NoError(t, err)
	s.Hosts[0].Faults.Add(fault.Rule{Action: fault.Drop, PSN: 1002, HasPSN: true, Iteration: 1})
	s.Hosts[0].Faults.Add(fault.Rule{Action: fault.Duplicate, PSN: 1001, HasPSN: true, Iteration: 1})
	_, err = s.Do(0, s.Write(0, 4096)) // 1001 to 1004
	require.NoError(t, err)
	sent, doubled, err := s.Fates(0)
	require.NoError(t, err)
	var lost []ib.PSN
	var psns []int
	for _, f := range sent {
		psns = append(psns, int(f.PSN))
		if f.Lost() {
			lost = append(lost, f.PSN)
			require.Equal(t, 2+2, f.Frame, "the first time")
		}
	}
	require.Equal(t, []int{1000, 1001, 1002, 1003, 1004, 1002, 1003, 1004}, psns)
	require.Equal(t, []ib.PSN{1002}, lost)
	require.Equal(t, []int{4}, doubled, "right behind the packet that it is the double of")
	require.Equal(t, 3, sent[1].Arrived)
	acks, doubled, err := s.Fates(1)
	require.NoError(t, err)
	require.Empty(t, doubled)
	for _, f := range acks {
		require.False(t, f.Lost())
	}
}

// The state of the queues is that after each step.
func TestStates(t *testing.T) {
	s := set(t, Config{})
	require.NoError(t, s.Recv(1, 2, 64))
	_, err := s.Do(0, s.Send(0, 16), s.Write(0, 8))
	require.NoError(t, err)
	require.Equal(t, []string{"SEND 16 B", "WRITE 8 B"}, s.Hosts[0].Posted)
	require.Equal(t, s.Hosts[0].MR.Addr(), s.Send(0, 16).SGList[0].Addr)
	posted := s.Hosts[0].When(0)
	require.Equal(t, 2, posted.Sends)
	require.Equal(t, 2, posted.Sent, "handed out for transmission")
	require.Equal(t, 2, posted.Packets)
	answered := s.Hosts[0].After(4)
	require.Equal(t, 0, answered.Sends)
	require.NotZero(t, answered.Completions, "not polled yet")
	b := s.Hosts[1].When(s.Net.Now())
	require.Equal(t, 1, b.Recvs)
	require.Equal(t, 1, b.Completions)
	require.Nil(t, s.Hosts[0].After(1000))
}

// A host whose device is closed hears nothing any more, and can do nothing.
func TestClosedHost(t *testing.T) {
	s := set(t, Config{})
	w := s.Write(0, 64)
	require.NoError(t, s.Post(0, &w))
	states := len(s.Hosts[1].States)
	require.NoError(t, s.Hosts[1].Device.Close())
	s.Net.RunFor(time.Millisecond)
	require.Len(t, s.Hosts[1].States, states)
	require.Error(t, s.Recv(1, 1, 64))
}

// attached is a link that only keeps what is attached.
type attached struct {
	link.Driven
	progress func()
}

func (a *attached) Attach(progress func()) { a.progress = progress }

// A device that is detached leaves nothing to call.
func TestDetach(t *testing.T) {
	l, calls := &attached{}, 0
	o := &observer{Driven: l, h: &Host{}}
	o.Attach(func() { calls++ })
	l.progress()
	require.Equal(t, 1, calls)
	o.Attach(nil)
	require.Nil(t, l.progress)
}
