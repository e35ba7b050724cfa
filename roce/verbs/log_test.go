package verbs

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

// The states of a device are told, each once, and to nobody without a logger.
func TestLogger(t *testing.T) {
	l, err := sim.New(sim.Config{Seed: 1}).Link(simAddr(1))
	require.NoError(t, err)
	var out bytes.Buffer
	d, err := Open(Config{Link: l, Logger: slog.New(slog.NewTextHandler(&out, nil))})
	require.NoError(t, err)
	for _, p := range []link.PortState{{Up: true, MTU: ib.MTU4096}, {Up: true, MTU: ib.MTU1024}, {Up: false},
		{Up: false}, {Up: true, MTU: ib.MTU4096}} {
		d.s.ChangePort(p)
	}
	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
	var told []string
	for line := range strings.Lines(out.String()) {
		_, msg, _ := strings.Cut(line, `msg="roce: `)
		msg, _, _ = strings.Cut(msg, `"`)
		told = append(told, msg)
	}
	require.Equal(t, []string{"device opened", "port MTU changed", "port down", "port up", "device closed"}, told)
	require.Contains(t, out.String(), "was=4096 mtu=1024")
}

// Events of queue pairs that have ended are not kept, others are.
func TestEventsOfClosedQPs(t *testing.T) {
	d := openDevice(t, Config{})
	pd, err := d.AllocPD()
	require.NoError(t, err)
	cq, err := d.CreateCQ(16, nil)
	require.NoError(t, err)
	var qps [2]*QP
	for i := range qps {
		qps[i], err = pd.CreateQP(QPInitAttr{Type: ib.RC, SendCQ: cq, Caps: QPCaps{MaxSendWR: 1, MaxRecvWR: 1}})
		require.NoError(t, err)
		d.async.push(Event{Type: EventQPFatal, QP: qps[i]})
		d.async.push(Event{Type: EventQPAccessError, QP: qps[i]})
	}
	require.NoError(t, qps[0].Close())
	for _, want := range []EventType{EventQPFatal, EventQPAccessError} {
		ev, ok := d.async.pop()
		require.True(t, ok)
		require.Equal(t, Event{Type: want, QP: qps[1]}, ev)
	}
	_, ok := d.async.pop()
	require.False(t, ok)
}
