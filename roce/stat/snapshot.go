package stat

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// Process describes the devices of a process. PID and User come from the kernel.
type Process struct {
	PID     int       `json:"pid"`
	User    int       `json:"uid"`
	Command string    `json:"comm"`
	Time    time.Time `json:"time"` // when it was asked
	Devices []Device  `json:"devices"`
}

// Device is a device of a process.
type Device struct {
	Link     string            `json:"link"`  // udp, packet, xdp, sim
	GIDs     []string          `json:"gids"`  // local addresses, in the order of the GID table
	State    string            `json:"state"` // ACTIVE or DOWN
	MTU      int               `json:"active_mtu"`
	Vectors  int               `json:"num_comp_vectors"`
	Polling  bool              `json:"polling"` // it makes progress only while the application polls or waits
	Memory   Memory            `json:"memory"`
	Conns    Conns             `json:"connections"`
	Counters map[string]uint64 `json:"hw_counters"` // rdma_rxe's names, and more: see CounterNames
	NumQPs   int               `json:"num_qps"`
	QPs      []QP              `json:"qps"` // the first 10000 of a process
}

// Memory counts registered memory.
type Memory struct {
	PDs     int `json:"pd"`
	Regions int `json:"mr"`
	Windows int `json:"mw"`
}

// Conns counts what the communication manager of a device holds.
type Conns struct {
	Conns     int `json:"connections"` // being made, made, and being ended
	HalfOpen  int `json:"half_open"`
	Timewait  int `json:"timewait"`
	Listeners int `json:"listeners"`
	Ports     int `json:"ports"` // bound
}

// QP is a queue pair. The names are those of "rdma -j res show qp".
type QP struct {
	Number ib.QPN `json:"lqpn"`
	Type   string `json:"type"`
	State  string `json:"state"`
	Remote ib.QPN `json:"rqpn,omitempty"`
	RQPSN  ib.PSN `json:"rq-psn"` // expected
	SQPSN  ib.PSN `json:"sq-psn"` // to be sent next
	// Local and Peer are the addresses of a connected queue pair.
	Local string `json:"local,omitempty"`
	Peer  string `json:"peer,omitempty"`
	MTU   int    `json:"path_mtu,omitempty"`

	Retransmitted uint32        `json:"retransmitted_pkts"`
	Timeouts      uint32        `json:"timeouts"`
	RTT           time.Duration `json:"rtt_ns,omitempty"` // smoothed; 0 if it was not measured
}

// closed reports whether a device has ended.
func closed(d *verbs.Device) bool {
	s := access.Shard(d)
	return s == nil || s.Closed()
}

// snapshot describes this process.
func snapshot(devices []*verbs.Device) *Process {
	p := &Process{PID: os.Getpid(), User: os.Geteuid(), Command: command(), Time: time.Now(), Devices: []Device{}}
	room := maxQPs
	for _, d := range devices {
		one := describe(d, room)
		room -= len(one.QPs)
		p.Devices = append(p.Devices, one)
	}
	return p
}

// command returns the name of the program, as the kernel reports it.
func command() string {
	if b, err := os.ReadFile("/proc/self/comm"); err == nil {
		return strings.TrimSpace(string(b))
	}
	return filepath.Base(os.Args[0])
}

// describe describes a device, and lists up to room queue pairs.
func describe(d *verbs.Device, room int) Device {
	port, mem, cm := d.Port(), d.MemCounts(), rdmacm.CountersOf(d)
	out := Device{
		Link: port.LinkName, State: "DOWN", MTU: port.ActiveMTU.Bytes(), Vectors: d.CompletionVectors(),
		Polling: !d.Background(), Memory: Memory{PDs: mem.PDs, Regions: mem.Regions, Windows: mem.Windows},
		Conns: Conns{Conns: cm.Now.Conns, HalfOpen: cm.Now.HalfOpen, Timewait: cm.Now.Timewait,
			Listeners: cm.Now.Listeners, Ports: cm.Ports},
		Counters: countersOf(d.Counters()), QPs: []QP{},
	}
	if port.Active {
		out.State = "ACTIVE"
	}
	addrs := d.Addrs()
	for _, a := range addrs {
		out.GIDs = append(out.GIDs, a.String())
	}
	qps := d.QPs()
	out.NumQPs = len(qps)
	for _, qp := range qps[:min(len(qps), room)] {
		if q, ok := describeQP(qp, out.GIDs); ok {
			out.QPs = append(out.QPs, q)
		}
	}
	return out
}

// describeQP describes a queue pair; false if it has ended meanwhile.
func describeQP(qp *verbs.QP, gids []string) (QP, bool) {
	a, _, err := qp.Query()
	if err != nil {
		return QP{}, false
	}
	s := qp.Stats()
	q := QP{
		Number: qp.Num(), Type: qp.Type().String(), State: a.State.String(), RQPSN: a.RQPSN, SQPSN: a.SQPSN,
		Retransmitted: s.RetransmittedPkts, Timeouts: s.Timeouts, RTT: s.SmoothedRTT,
	}
	if a.DestQPN != 0 {
		q.Remote, q.Peer, q.MTU = a.DestQPN, a.AV.DGID.Addr().String(), a.PathMTU.Bytes()
		if i := a.AV.SGIDIndex; i >= 0 && i < len(gids) {
			q.Local = gids[i]
		}
	}
	return q, true
}
