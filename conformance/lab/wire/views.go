package wire

import (
	"encoding/binary"
	"io"
	"slices"
	"time"
)

// Views records a conversation as the hosts at two ports see it, and what rules do to it: a capture
// at either port, as tcpdump there would have, and for each act of a rule where the packet
// that it happened to is in each of them.
type Views struct {
	sw    *Switch
	ports [2]*Port
	match func(*Packet) bool
	base  time.Time // of Shot.At

	// Under the switch's lock.
	shots [2][]Shot
	acts  []*Act
	now   *Act           // on the packet that is being handled
	here  [2]int         // its frame at the port where it entered
	held  map[*byte]*Act // by the first byte of the frame
	open  map[openFlow][]*Act
}

// openFlow is packets on their way to a view.
type openFlow struct {
	view int
	to   [16]byte
	qpn  uint32
}

// Shot is a frame at a port.
type Shot struct {
	At    time.Time
	Out   bool // sent by the host behind the port
	Frame []byte
}

// Act is what a rule did to a packet.
type Act struct {
	Rule *Rule
	Pkt  *Packet // as it entered
	// Sender is the view of the host that sent it.
	Sender int
	// Frames are the numbers, from 1, of the frames that hold the packet in each view: none
	// where it never came, two where it came twice.
	Frames [2][]int
	// Before is how many frames each view had before.
	Before [2]int
	// Next is, for a view where the packet did not come, the next frame there that goes to the same
	// queue pair; 0 if there was none.
	Next [2]int
}

// Views starts to record what two ports see of the RoCE packets that match, and of ICMP.
func (s *Switch) Views(a, b *Port, match func(*Packet) bool) *Views {
	v := &Views{sw: s, ports: [2]*Port{a, b}, match: match, base: time.Now().Add(-s.Now()), held: map[*byte]*Act{}, open: map[openFlow][]*Act{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.views = append(s.views, v)
	return v
}

// Stop ends the recording.
func (v *Views) Stop() {
	v.sw.mu.Lock()
	defer v.sw.mu.Unlock()
	v.sw.views = slices.DeleteFunc(v.sw.views, func(x *Views) bool { return x == v })
}

// Shots returns the frames of a view.
func (v *Views) Shots(view int) []Shot {
	v.sw.mu.Lock()
	defer v.sw.mu.Unlock()
	return slices.Clone(v.shots[view])
}

// Acts returns what rules did, in order. Call it after Stop: until then Frames and Next may change.
func (v *Views) Acts() []*Act {
	v.sw.mu.Lock()
	defer v.sw.mu.Unlock()
	return slices.Clone(v.acts)
}

// take adds a frame to a view, and returns its number.
func (v *Views) take(view int, out bool, f []byte) int {
	v.shots[view] = append(v.shots[view], Shot{v.base.Add(v.sw.Now()), out, slices.Clone(f)})
	return len(v.shots[view])
}

// entered notes a frame that comes from a host, before any rule; p is nil if it is not RoCE.
func (v *Views) entered(from *Port, f []byte, p *Packet) {
	v.now, v.here = nil, [2]int{}
	i := slices.Index(v.ports[:], from)
	if i < 0 || p == nil && !isICMP(f) || p != nil && !v.match(p) {
		return
	}
	v.here[i] = v.take(i, true, f)
}

// acted notes that a rule acts on the packet that has just entered.
func (v *Views) acted(r *Rule, p *Packet) {
	i := slices.IndexFunc(v.here[:], func(n int) bool { return n != 0 })
	if i < 0 {
		return
	}
	was, ok := Decode(slices.Clone(p.Frame))
	if !ok {
		return
	}
	a := &Act{Rule: r, Pkt: was, Sender: i, Before: [2]int{len(v.shots[0]), len(v.shots[1])}}
	a.Before[i]--
	a.Frames[i] = []int{v.here[i]}
	v.acts = append(v.acts, a)
	key := openFlow{1 - i, p.Dst.As16(), p.QPN}
	v.open[key] = append(v.open[key], a)
	if r.Kind == Hold {
		v.held[&p.Frame[0]] = a
		return
	}
	v.now = a
}

// left notes a frame on its way to a host.
func (v *Views) left(to *Port, f []byte) {
	i := slices.Index(v.ports[:], to)
	if i < 0 {
		return
	}
	p, ok := Decode(f)
	if !ok && !isICMP(f) || ok && !v.match(p) {
		return
	}
	n := v.take(i, false, f)
	a, late := v.held[&f[0]]
	if late {
		delete(v.held, &f[0])
	} else {
		a = v.now
	}
	if a != nil && a.Sender != i {
		a.Frames[i] = append(a.Frames[i], n)
	}
	if !ok {
		return
	}
	key := openFlow{i, p.Dst.As16(), p.QPN}
	for _, o := range v.open[key] {
		if o != a && len(o.Frames[i]) == 0 && o.Next[i] == 0 {
			o.Next[i] = n
		}
	}
	v.open[key] = slices.DeleteFunc(v.open[key], func(o *Act) bool { return o.Next[i] != 0 })
}

// handled ends what belongs to the packet that entered last.
func (v *Views) handled() { v.now, v.here = nil, [2]int{} }

// isICMP reports whether an Ethernet frame holds ICMP or ICMPv6, of the errors.
func isICMP(f []byte) bool {
	const protoICMP, protoICMP6, icmpUnreachable, icmpErrors6 = 1, 58, 3, 128
	if len(f) < ethLen+ip4Len+1 {
		return false
	}
	switch h := f[ethLen:]; binary.BigEndian.Uint16(f[12:]) {
	case etherIP4:
		return h[0] == 0x45 && h[9] == protoICMP && h[ip4Len] == icmpUnreachable
	case etherIP6:
		return len(h) > ip6Len && h[6] == protoICMP6 && h[ip6Len] < icmpErrors6
	}
	return false
}

// pcapng's numbers.
const (
	ngSection, ngInterface, ngPacket = 0x0A0D0D0A, 1, 6
	ngByteOrder                      = 0x1A2B3C4D
	ngTimeResolution, ngFlags        = 9, 2 // options
	ngInbound, ngOutbound            = 1, 2
)

// WritePcapng writes a view as a capture file that says which way each frame went.
func (v *Views) WritePcapng(w io.Writer, view int) error {
	le := binary.LittleEndian
	block := func(b []byte, kind uint32, body ...[]byte) []byte {
		all := slices.Concat(body...)
		for len(all)%4 != 0 {
			all = append(all, 0)
		}
		b = le.AppendUint32(b, kind)
		b = le.AppendUint32(b, uint32(12+len(all)))
		return le.AppendUint32(append(b, all...), uint32(12+len(all)))
	}
	u16 := func(n ...uint16) (b []byte) {
		for _, x := range n {
			b = le.AppendUint16(b, x)
		}
		return b
	}
	u32 := func(n ...uint32) (b []byte) {
		for _, x := range n {
			b = le.AppendUint32(b, x)
		}
		return b
	}
	unknown := le.AppendUint64(nil, ^uint64(0)) // length of the section
	out := block(nil, ngSection, u32(ngByteOrder), u16(1, 0), unknown)
	out = block(out, ngInterface, u16(pcapEthernet, 0), u32(MaxFrame), u16(ngTimeResolution, 1), []byte{9, 0, 0, 0}, u32(0))
	for _, x := range v.Shots(view) {
		dir := uint32(ngInbound)
		if x.Out {
			dir = ngOutbound
		}
		at := uint64(x.At.UnixNano())
		pad := make([]byte, -len(x.Frame)&3)
		out = block(out, ngPacket, u32(0, uint32(at>>32), uint32(at), uint32(len(x.Frame)), uint32(len(x.Frame))), x.Frame, pad, u16(ngFlags, 4), u32(dir), u32(0))
	}
	_, err := w.Write(out)
	return err
}
