package metrics

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Dashboards know metrics by their names, and by whether they only go up.
func TestNames(t *testing.T) {
	var counts, gauges []string
	for _, m := range Read(nil)[len(hwCounters)+len(moreCounters):] {
		if m.Gauge {
			gauges = append(gauges, m.Name)
		} else {
			counts = append(counts, m.Name)
		}
	}
	require.Equal(t, []string{
		"cm_retries", "cm_timeouts", "cm_evicted", "cm_drop_malformed", "cm_drop_backlog", "cm_drop_peer", "cm_drop_conns",
		"rsocket_lost", "rsocket_buffers_refused",
	}, counts)
	require.Equal(t, []string{
		"port_active", "port_mtu", "connections", "cm_connections", "cm_half_open", "cm_timewait", "cm_listeners",
		"rsocket_lingering", "rsocket_buffer_bytes", "protection_domains", "memory_regions", "memory_windows",
	}, gauges)
}
