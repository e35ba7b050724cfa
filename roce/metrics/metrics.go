// Package metrics names the counters of a device for collectors: [Read] returns them all, [Publish]
// puts them under expvar, and the module roce/prometheus has a collector.
//
// The first have the names and meanings of Linux's rdma_rxe in
// /sys/class/infiniband/*/ports/1/hw_counters. The others are counters that rdma_rxe lacks, those
// of the communication manager (cm_...), and current amounts (gauges).
//
// Reading takes the lock of the device for a moment: once a second is fine, once a packet is not.
//
// The package imports expvar, which registers /debug/vars with http.DefaultServeMux; package roce
// does not.
package metrics

import (
	"encoding/json"
	"expvar"

	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/rsocket"
	"github.com/goroce/goroce/roce/verbs"
)

// Metric is a number with a name.
type Metric struct {
	Name  string // such as "rcvd_pkts"
	Help  string
	Gauge bool // it goes up and down; others only go up, from when the device was opened
	Value uint64
}

// Read returns the metrics of a device, always in the same order; all are 0 if it is nil.
func Read(d *verbs.Device) []Metric {
	return (&state{
		Counters: d.Counters(), cm: rdmacm.CountersOf(d), mem: d.MemCounts(), linger: rsocket.Lingering(d),
		buffers: rsocket.Buffers(d), port: d.Port(), conns: len(roce.Conns(d)),
	}).metrics()
}

// state holds the figures of a device.
type state struct {
	verbs.Counters
	cm      rdmacm.Counters
	mem     mem.Counts
	linger  rsocket.LingerStats
	buffers rsocket.BufferStats
	port    verbs.PortAttr
	conns   int
}

func (s *state) metrics() (out []Metric) {
	for _, table := range [][]counter{hwCounters, moreCounters} {
		for _, t := range table {
			out = append(out, Metric{Name: t.name, Help: t.help, Value: t.value(&s.Counters)})
		}
	}
	count := func(name, help string, v uint64) { out = append(out, Metric{Name: name, Help: help, Value: v}) }
	gauge := func(name, help string, v int) {
		out = append(out, Metric{Name: name, Help: help, Gauge: true, Value: uint64(v)})
	}
	count("cm_retries", "messages of the communication manager sent again", s.cm.Retries)
	count("cm_timeouts", "messages of the communication manager that nobody answered", s.cm.Timeouts)
	count("cm_evicted", "half-open connections given up for newer ones", s.cm.Evicted)
	count("cm_drop_malformed", "malformed messages of the communication manager", s.cm.DropMalformed)
	count("cm_drop_backlog", "requests beyond the backlog of their listener", s.cm.DropBacklog)
	count("cm_drop_peer", "requests beyond what one peer may have open", s.cm.DropPeer)
	count("cm_drop_conns", "requests beyond what there may be of connections", s.cm.DropConns)
	count("rsocket_lost", "rsockets whose Close gave up on data that the peer did not acknowledge", s.linger.Lost)
	count("rsocket_buffers_refused",
		"larger buffers that rsockets did not get: all of the device had 512 MiB", s.buffers.Refused)
	gauge("port_active", "1 if the port can carry packets", map[bool]int{true: 1}[s.port.Active])
	gauge("port_mtu", "path MTU of new connections, in bytes", s.port.ActiveMTU.Bytes())
	gauge("connections", "open connections of package roce", s.conns)
	gauge("cm_connections", "connections of the communication manager, of whatever package", s.cm.Now.Conns)
	gauge("cm_half_open", "of these, not confirmed by the peer", s.cm.Now.HalfOpen)
	gauge("cm_timewait", "connections in TIMEWAIT", s.cm.Now.Timewait)
	gauge("cm_listeners", "listeners", s.cm.Now.Listeners)
	gauge("rsocket_lingering", "closed rsockets whose goodbye has not arrived", s.linger.Conns)
	gauge("rsocket_buffer_bytes", "larger buffers of rsockets, in bytes", int(s.buffers.Bytes))
	gauge("protection_domains", "protection domains", s.mem.PDs)
	gauge("memory_regions", "registered memory regions", s.mem.Regions)
	gauge("memory_windows", "memory windows", s.mem.Windows)
	return out
}

// Var returns the metrics of a device as a variable of expvar: an object with a number for each
// name, read anew each time.
func Var(d *verbs.Device) expvar.Var { return deviceVar{d} }

// Publish is expvar.Publish for Var. Like that it panics if the name is taken.
func Publish(name string, d *verbs.Device) { expvar.Publish(name, Var(d)) }

type deviceVar struct{ d *verbs.Device }

func (v deviceVar) String() string {
	values := map[string]uint64{}
	for _, m := range Read(v.d) {
		values[m.Name] = m.Value
	}
	b, err := json.Marshal(values)
	if err != nil {
		return "{}" // encoding numbers does not fail
	}
	return string(b)
}
