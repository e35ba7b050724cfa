package metrics

import (
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/rdmacm/cm"
	"github.com/goroce/goroce/roce/rsocket"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// Dashboards know metrics by their names, and by whether they only go up. Each has the value of its
// own.
func TestNames(t *testing.T) {
	type is struct {
		name  string
		gauge bool
		value uint64
	}
	s := state{
		cm: rdmacm.Counters{
			Stats: cm.Stats{Retries: 1, Timeouts: 2, Evicted: 3, DropMalformed: 4, DropBacklog: 5,
				DropPeer: 6, DropConns: 7},
			Now: cm.Counts{Conns: 8, HalfOpen: 9, Timewait: 10, Listeners: 11},
		},
		linger:  rsocket.LingerStats{Lost: 12, Conns: 13},
		buffers: rsocket.BufferStats{Refused: 14, Bytes: 15},
		mem:     mem.Counts{PDs: 16, Regions: 17, Windows: 18},
		port:    verbs.PortAttr{Active: true, ActiveMTU: ib.MTU2048},
		conns:   19,
	}
	var got []is
	for _, m := range s.metrics()[len(hwCounters)+len(moreCounters):] {
		got = append(got, is{m.Name, m.Gauge, m.Value})
	}
	require.Equal(t, []is{
		{"cm_retries", false, 1}, {"cm_timeouts", false, 2}, {"cm_evicted", false, 3}, {"cm_drop_malformed", false, 4},
		{"cm_drop_backlog", false, 5}, {"cm_drop_peer", false, 6}, {"cm_drop_conns", false, 7},
		{"rsocket_lost", false, 12}, {"rsocket_buffers_refused", false, 14},
		{"port_active", true, 1}, {"port_mtu", true, 2048}, {"connections", true, 19}, {"cm_connections", true, 8},
		{"cm_half_open", true, 9}, {"cm_timewait", true, 10}, {"cm_listeners", true, 11},
		{"rsocket_lingering", true, 13}, {"rsocket_buffer_bytes", true, 15},
		{"protection_domains", true, 16}, {"memory_regions", true, 17}, {"memory_windows", true, 18},
	}, got)
	for i, m := range s.metrics()[:len(hwCounters)+len(moreCounters)] {
		require.False(t, m.Gauge, m.Name)
		require.Equal(t, append(append([]counter{}, hwCounters...), moreCounters...)[i].name, m.Name)
	}
}

// Of no device all are 0.
func TestNoDevice(t *testing.T) {
	require.Len(t, Read(nil), len(hwCounters)+len(moreCounters)+21)
	for _, m := range Read(nil) {
		require.Zero(t, m.Value, m.Name)
	}
}
