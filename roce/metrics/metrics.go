// Package metrics gives the counters of a device names, for whatever collects them: [Read] returns
// them all, [Publish] puts them under expvar, and the module roce/prometheus has a collector.
//
// The first have the names that Linux's rdma_rxe has in
// /sys/class/infiniband/*/ports/1/hw_counters, and mean the same. The others are what rdma_rxe
// lacks, those of the communication manager (cm_...), and how much there is now (gauges).
//
// Reading takes the lock of the device for a moment: once a second is fine, once a packet is not.
//
// It imports expvar, which registers /debug/vars with http.DefaultServeMux; package roce does not.
package metrics

import (
	"encoding/json"
	"expvar"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/rsocket"
	"github.com/goroce/goroce/roce/verbs"
)

// Metric is a number with a name.
type Metric struct {
	Name  string // such as "rcvd_pkts"
	Help  string
	Gauge bool // it goes up and down; others only up, from when the device was opened
	Value uint64
}

// Read returns the metrics of a device, always in the same order.
func Read(d *verbs.Device) []Metric {
	if d == nil {
		d = &verbs.Device{}
	}
	c := d.Counters()
	var out []Metric
	for _, table := range [][]counter{hwCounters, moreCounters} {
		for _, t := range table {
			out = append(out, Metric{Name: t.name, Help: t.help, Value: t.value(&c)})
		}
	}
	cm, mem, linger, buffers := rdmacm.CountersOf(d), d.MemCounts(), rsocket.Lingering(d), rsocket.Buffers(d)
	count := func(name, help string, v uint64) { out = append(out, Metric{Name: name, Help: help, Value: v}) }
	gauge := func(name, help string, v int) {
		out = append(out, Metric{Name: name, Help: help, Gauge: true, Value: uint64(v)})
	}
	count("cm_retries", "messages of the communication manager sent again", cm.Retries)
	count("cm_timeouts", "messages of the communication manager that nobody answered", cm.Timeouts)
	count("cm_evicted", "half-open connections given up for newer ones", cm.Evicted)
	count("cm_drop_malformed", "malformed messages of the communication manager", cm.DropMalformed)
	count("cm_drop_backlog", "requests beyond the backlog of their listener", cm.DropBacklog)
	count("cm_drop_peer", "requests beyond what one peer may have open", cm.DropPeer)
	count("cm_drop_conns", "requests beyond what there may be of connections", cm.DropConns)
	count("rsocket_lost", "rsockets whose Close gave up on data that the peer did not acknowledge", linger.Lost)
	count("rsocket_buffers_refused", "larger buffers that rsockets did not get: all of the device had 512 MiB", buffers.Refused)
	gauge("port_active", "1 if the port can carry packets", map[bool]int{true: 1}[d.Port().Active])
	gauge("port_mtu", "path MTU of new connections, in bytes", d.Port().ActiveMTU.Bytes())
	gauge("connections", "open connections of package roce", len(roce.Conns(d)))
	gauge("cm_connections", "connections of the communication manager, of whatever package", cm.Now.Conns)
	gauge("cm_half_open", "of these, not confirmed by the peer", cm.Now.HalfOpen)
	gauge("cm_timewait", "connections in TIMEWAIT", cm.Now.Timewait)
	gauge("cm_listeners", "listeners", cm.Now.Listeners)
	gauge("rsocket_lingering", "closed rsockets whose goodbye has not arrived", linger.Conns)
	gauge("rsocket_buffer_bytes", "larger buffers of rsockets, in bytes", int(buffers.Bytes))
	gauge("protection_domains", "protection domains", mem.PDs)
	gauge("memory_regions", "registered memory regions", mem.Regions)
	gauge("memory_windows", "memory windows", mem.Windows)
	return out
}

// Var returns the metrics of a device as a variable of expvar: an object with a number for each
// name, read anew each time.
func Var(d *verbs.Device) expvar.Var { return deviceVar{d} }

// Publish is expvar.Publish for Var. It panics if the name is taken, as that one does.
func Publish(name string, d *verbs.Device) { expvar.Publish(name, Var(d)) }

type deviceVar struct{ d *verbs.Device }

func (v deviceVar) String() string {
	values := map[string]uint64{}
	for _, m := range Read(v.d) {
		values[m.Name] = m.Value
	}
	b, err := json.Marshal(values)
	if err != nil {
		return "{}" // it does not fail for numbers
	}
	return string(b)
}
