package scale

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/goroce/goroce/roce/link/sim"
)

// Tree is a fat tree of switches with k ports: k pods of k/2 edge switches with k/2 hosts each, k/2
// switches above them in each pod, and (k/2)^2 in the core. All cables have one rate, so that every
// host can send at that rate as long as no two flows meet: which of the equal ways a flow takes is
// drawn once (ECMP).
type Tree struct {
	k      int
	rng    *rand.Rand
	fabric *sim.Fabric
	pipe   sim.Pipe
	// Trunks by the number of the lower switch (pod*k/2 + number in the pod) and that of the port;
	// cores are above pods in groups of k/2.
	edgeUp, edgeDown, podUp, podDown [][]*sim.Trunk
}

// Ports returns the least k whose tree has room for the hosts.
func Ports(hosts int) int {
	k := 2
	for k*k*k/4 < hosts {
		k += 2
	}
	return k
}

// NewTree makes a tree for a number of hosts. pipe is every cable between switches.
func NewTree(fabric *sim.Fabric, hosts int, pipe sim.Pipe, seed uint64) *Tree {
	t := &Tree{k: Ports(hosts), fabric: fabric, rng: rand.New(rand.NewPCG(seed, 1)), pipe: pipe}
	half := t.k / 2
	for _, level := range []*[][]*sim.Trunk{&t.edgeUp, &t.edgeDown, &t.podUp, &t.podDown} {
		for range t.k * half {
			ports := make([]*sim.Trunk, half)
			for i := range ports {
				ports[i] = fabric.NewTrunk(pipe)
			}
			*level = append(*level, ports)
		}
	}
	return t
}

// cable is one between switches, or from a switch to a host, with the queue of the port before it.
func cable(rate int64, delay time.Duration, queueBytes int, red sim.RED) sim.Pipe {
	p := sim.Pipe{BitsPerSecond: rate, Latency: delay, QueueBytes: queueBytes, MarkDeparting: true}
	if red != (sim.RED{}) {
		p.Mark = red.Mark
	}
	return p
}

// network has such a cable to each host. A host waits for its own port: it drops and marks nothing
// there.
func network(seed uint64, down sim.Pipe) sim.Config {
	up := down
	up.QueueBytes, up.Mark = 0, nil
	return sim.Config{Seed: seed, Up: up, Down: down}
}

// Addr is the address of a host.
func Addr(host int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(host >> 16), byte(host >> 8), byte(host)})
}

// Connect draws the ways from one host to another and back.
func (t *Tree) Connect(a, b int) {
	t.connect(a, b)
	t.connect(b, a)
}

func (t *Tree) connect(from, to int) {
	half := t.k / 2
	e, f := from/half, to/half // edge switches
	if e == f {
		return // one switch, which every fabric has
	}
	via := t.rng.IntN(half) // the switch of the pod, by its port at the edge
	way := []*sim.Trunk{t.edgeUp[e][via]}
	if p, q := e/half, f/half; p != q {
		core := t.rng.IntN(half)
		way = append(way, t.podUp[p*half+via][core], t.podDown[q*half+via][core])
	}
	t.fabric.Route(Addr(from), Addr(to), append(way, t.edgeDown[f][via])...)
}

// Cables is how many cables are between two hosts.
func (t *Tree) Cables(a, b int) int {
	half := t.k / 2
	switch {
	case a/half == b/half:
		return 2
	case a/half/half == b/half/half:
		return 4
	}
	return 6
}

// String tells the shape.
func (t *Tree) String() string {
	return fmt.Sprintf("fat tree of switches with %d ports", t.k)
}
