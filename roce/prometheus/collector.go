// Package prometheus has a collector of Prometheus for the metrics of devices. It is a module of
// its own, so that programs without it do not depend on client_golang.
//
//	registry.MustRegister(prometheus.NewCollector(device))
//
// The metrics are those of package roce/metrics: roce_sent_pkts_total, roce_rcvd_pkts_total and so
// on, with the names that rdma_rxe has below hw_counters. The label device is the first address of
// the device, and port is always 1, as in /sys/class/infiniband.
package prometheus

import (
	"github.com/goroce/goroce/roce/metrics"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/prometheus/client_golang/prometheus"
)

// Collector collects the metrics of one device. It may be used by any number of goroutines.
type Collector struct {
	d     *verbs.Device
	descs []*prometheus.Desc // in the order of metrics.Read
}

// NewCollector returns a collector for a device. Register it once; Unregister it before the device
// is closed, or its metrics stay as they were then.
func NewCollector(d *verbs.Device) *Collector {
	c := &Collector{d: d}
	labels := prometheus.Labels{"port": "1", "device": ""}
	if addrs := d.Addrs(); len(addrs) > 0 {
		labels["device"] = addrs[0].String()
	}
	for _, m := range metrics.Read(d) {
		name := "roce_" + m.Name
		if !m.Gauge {
			name += "_total"
		}
		c.descs = append(c.descs, prometheus.NewDesc(name, m.Help, nil, labels))
	}
	return c
}

// Describe is part of prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect is part of prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	for i, m := range metrics.Read(c.d) {
		kind := prometheus.CounterValue
		if m.Gauge {
			kind = prometheus.GaugeValue
		}
		out <- prometheus.MustNewConstMetric(c.descs[i], kind, float64(m.Value))
	}
}
