package explain

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"math"
	"net/netip"
	"slices"

	"github.com/goroce/goroce/roce/pcap"
)

var keySeed = maphash.MakeSeed()

// keys are what of a packet does not change on the way: head of addresses, source port and
// transport headers, without the byte of BTH that switches may write to (FECN, BECN); same of these
// and the ICRC, which covers the payload, or 0 if the packet was cut.
func keys(p *pcap.Packet) (same, head uint64) {
	var h maphash.Hash
	h.SetSeed(keySeed)
	src, dst := p.Flow.Src.As16(), p.Flow.Dst.As16()
	h.Write(src[:])
	h.Write(dst[:])
	h.Write(binary.BigEndian.AppendUint16(nil, p.Flow.SrcPort))
	for i, c := range p.Data[:min(len(p.Data), int(p.Opcode.Info().HeaderLen))] {
		if i != 4 {
			h.WriteByte(c)
		}
	}
	head = h.Sum64()
	if !p.Cut() && len(p.Data) >= 4 {
		h.Write(p.Data[len(p.Data)-4:])
		same = h.Sum64() | 1
	}
	return same, head
}

// hosts are two addresses, the lower one first.
type hosts [2]netip.Addr

// hostsOf returns the two that a packet is between, and whether it is from the first.
func hostsOf(r *row) (h hosts, first bool) {
	if r.src.Compare(r.dst) <= 0 {
		return hosts{r.src, r.dst}, true
	}
	return hosts{r.dst, r.src}, false
}

// matching is which packets of two captures are the same.
type matching struct {
	rows [2][]row
	twin [2][]int // index of the row in the other capture, or -1
	// near is which of the captures is the nearer one to the first of two hosts.
	near  map[hosts]int
	clock *clock
}

// from is the capture that is nearer to the sender of a packet; ok is false if nothing tells.
func (m *matching) from(r *row) (capture int, ok bool) {
	h, first := hostsOf(r)
	n, ok := m.near[h]
	if !first {
		n = 1 - n
	}
	return n, ok
}

// match finds the packets that both captures have. It returns nil if there is none.
func match(a, b []row) *matching {
	m := &matching{rows: [2][]row{a, b}, near: map[hosts]int{}}
	cut := false
	for f, rows := range m.rows {
		m.twin[f] = slices.Repeat([]int{-1}, len(rows))
		for i := range rows {
			cut = cut || rows[i].head != 0 && rows[i].same == 0
		}
	}
	groups := m.groups(func(r *row) uint64 {
		if cut {
			return r.head
		}
		return r.same
	})
	// What was sent once leaves no doubt. What came as often as it was sent is in order, if no
	// packet comes before it was sent; if nothing was sent once, that has to do.
	for _, g := range groups {
		if len(g[0]) == 1 && len(g[1]) == 1 {
			m.pair(g[0][0], g[1][0])
		}
	}
	m.clock = m.sync()
	for _, g := range groups {
		if len(g[0]) == len(g[1]) && len(g[0]) > 1 && m.plausible(g) {
			for k := range g[0] {
				m.pair(g[0][k], g[1][k])
			}
		}
	}
	if m.clock = m.sync(); m.clock == nil {
		return nil
	}
	for _, g := range groups {
		m.inOrder(g)
	}
	if !cut {
		// What is left at both ends was changed on the way.
		for _, g := range m.groups(func(r *row) uint64 {
			var h maphash.Hash
			h.SetSeed(keySeed)
			src, dst := r.src.As16(), r.dst.As16()
			h.Write(src[:])
			h.Write(dst[:])
			h.Write(binary.BigEndian.AppendUint64(nil, uint64(r.qpn)<<32|uint64(r.opcode)<<24|uint64(r.psn)))
			return h.Sum64()
		}) {
			if from, ok := m.from(&m.rows[0][g[0][0]]); ok {
				for _, i := range m.inOrder(g) {
					m.rows[1-from][i].flags |= flagChanged
				}
			}
		}
	}
	return m
}

// groups are the packets without a twin that have a key in common, of both captures: those of
// either are in order.
func (m *matching) groups(key func(*row) uint64) [][2][]int {
	at := map[uint64]int{}
	var all [][2][]int
	for f, rows := range m.rows {
		for i := range rows {
			r := &rows[i]
			if r.head == 0 || m.twin[f][i] >= 0 {
				continue
			}
			k := key(r)
			n, ok := at[k]
			if !ok && f == 0 {
				n, ok = len(all), true
				at[k], all = n, append(all, [2][]int{})
			}
			if ok {
				all[n][f] = append(all[n][f], i)
			}
		}
	}
	return slices.DeleteFunc(all, func(g [2][]int) bool { return len(g[1]) == 0 })
}

func (m *matching) pair(i, j int) { m.twin[0][i], m.twin[1][j] = j, i }

// sync finds out, of the pairs so far, which capture is near to which host, and the difference of
// the clocks. It returns nil if there is no pair.
func (m *matching) sync() *clock {
	type votes struct {
		last  [2]int64
		seen  [2]bool
		trips []int64 // both ways together, if the first capture is near to the first host; else less than 0
		dir   int     // votes of frames that say which way they went, for that
		first bool    // who sent the first packet
	}
	all := map[hosts]*votes{}
	for i, j := range m.twin[0] {
		if j < 0 {
			continue
		}
		a, b := &m.rows[0][i], &m.rows[1][j]
		h, first := hostsOf(a)
		v := all[h]
		if v == nil {
			v = &votes{first: first}
			all[h] = v
		}
		d := 0
		if !first {
			d = 1
		}
		v.last[d], v.seen[d] = b.atNs-a.atNs, true
		if v.seen[0] && v.seen[1] {
			v.trips = append(v.trips, v.last[0]-v.last[1])
		}
		for _, x := range []pcap.Direction{a.dir, 3 - b.dir} {
			if (x == pcap.Out) == first && (x == pcap.Out || x == pcap.In) {
				v.dir++
			} else if x == pcap.Out || x == pcap.In {
				v.dir--
			}
		}
	}
	for h, v := range all {
		slices.Sort(v.trips)
		n := 0
		switch {
		case v.dir != 0:
			n = v.dir
		case len(v.trips) > 0 && v.trips[len(v.trips)/2] != 0:
			n = cmp.Compare(v.trips[len(v.trips)/2], 0)
		case !v.first:
			n = -1 // for want of anything else: the first file is where the first packet comes from
		}
		if m.near[h] = 0; n < 0 {
			m.near[h] = 1
		}
	}
	var samples []sample
	for i, j := range m.twin[0] {
		if j >= 0 {
			a, b := &m.rows[0][i], &m.rows[1][j]
			from, _ := m.from(a)
			samples = append(samples, sample{a.atNs, b.atNs - a.atNs, from == 1})
		}
	}
	if len(samples) == 0 {
		return nil
	}
	return estimate(samples)
}

// plausible reports whether packets that were sent several times, and came as often, can be the
// same in this order.
func (m *matching) plausible(g [2][]int) bool {
	if m.clock == nil || math.IsInf(m.clock.room, 1) {
		return true
	}
	from, ok := m.from(&m.rows[0][g[0][0]])
	for k := range g[0] {
		if ok && float64(m.when(1-from, g[1-from][k])-m.when(from, g[from][k])) < -math.Abs(m.clock.room) {
			return false
		}
	}
	return true
}

// inOrder pairs packets that are alike, which were sent more than once: each that came with the
// last that was sent before it and that none after it is paired with. It returns which came.
func (m *matching) inOrder(g [2][]int) (came []int) {
	if len(g[0]) == 0 || len(g[1]) == 0 || m.twin[0][g[0][0]] >= 0 {
		return nil
	}
	from, ok := m.from(&m.rows[0][g[0][0]])
	if !ok {
		return nil
	}
	slack := int64(0) // a way may be shorter than those that the clock was made of, but nobody sends again so soon
	if room := math.Abs(m.clock.room); !math.IsInf(room, 1) {
		slack = int64(room / 2)
	}
	sent, here := g[from], g[1-from]
	s := len(sent) - 1
	for k := len(here) - 1; k >= 0; k-- {
		for s >= 0 && m.when(from, sent[s]) > m.when(1-from, here[k])+slack {
			s--
		}
		if s < 0 {
			break
		}
		if from == 0 {
			m.pair(sent[s], here[k])
		} else {
			m.pair(here[k], sent[s])
		}
		came = append(came, here[k])
		s--
	}
	return came
}

// when is a packet's time by the first clock.
func (m *matching) when(f, i int) int64 {
	if f == 0 {
		return m.rows[0][i].atNs
	}
	return m.clock.first(m.rows[1][i].atNs)
}
