package ether

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
	lost  int
	acts  []*Act
	now   *Act           // on the packet that is being handled
	here  [2]int         // its frame at the port where it entered
	held  map[*byte]*Act // by the first byte of the frame
	open  map[openFlow][]*Act
}

// openFlow is packets in a view.
type openFlow struct {
	view int
	to   [16]byte
	qpn  uint32 // 0: any
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
	// Next is the next frame behind it in each view that goes to the same queue pair (to the same
	// host, for a message to QP 1), with its PSN; 0 if there was none. Where the packet came, it is
	// only known for one that was held, at its sender.
	Next    [2]int
	NextPSN [2]uint32
}

// Views starts to record what two ports see of the RoCE packets that match, and of ICMP.
func (s *Switch) Views(a, b *Port, match func(*Packet) bool) *Views {
	v := &Views{sw: s, ports: [2]*Port{a, b}, match: match, base: time.Now().Add(-s.Now()),
		held: map[*byte]*Act{}, open: map[openFlow][]*Act{}}
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

// Lost returns how many frames there was no room for: a view has as much as a Trace.
func (v *Views) Lost() int {
	v.sw.mu.Lock()
	defer v.sw.mu.Unlock()
	return v.lost
}

// take adds a frame to a view, and returns its number; 0 if there is no room.
func (v *Views) take(view int, out bool, f []byte) int {
	if len(v.shots[view]) >= maxTraceEvents {
		v.lost++
		return 0
	}
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
	if p != nil {
		v.follows(i, p, v.here[i], nil)
	}
}

// follows notes a frame of a view as the next one of what looks for it; of is the act on it.
func (v *Views) follows(view int, p *Packet, n int, of *Act) {
	for _, qpn := range [2]uint32{p.QPN, 0} {
		key := openFlow{view, p.Dst.As16(), qpn}
		v.open[key] = slices.DeleteFunc(v.open[key], func(o *Act) bool {
			if o == of || o.Sender != view && len(o.Frames[view]) > 0 {
				return o != of
			}
			o.Next[view], o.NextPSN[view] = n, p.PSN
			return true
		})
	}
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
	if p.QPN == qpnGSI {
		key.qpn = 0
	}
	v.open[key] = append(v.open[key], a)
	if r.Kind == Hold {
		key.view = i
		v.open[key] = append(v.open[key], a)
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
	if n == 0 {
		return
	}
	a, late := v.held[&f[0]]
	if late {
		delete(v.held, &f[0])
	} else {
		a = v.now
	}
	if a != nil && a.Sender != i {
		a.Frames[i] = append(a.Frames[i], n)
	}
	if ok {
		v.follows(i, p, n, a)
	}
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
	out = block(out, ngInterface, u16(pcapEthernet, 0), u32(MaxFrame), u16(ngTimeResolution, 1),
		[]byte{9, 0, 0, 0}, u32(0))
	for _, x := range v.Shots(view) {
		dir := uint32(ngInbound)
		if x.Out {
			dir = ngOutbound
		}
		at := uint64(x.At.UnixNano())
		pad := make([]byte, -len(x.Frame)&3)
		out = block(out, ngPacket, u32(0, uint32(at>>32), uint32(at), uint32(len(x.Frame)), uint32(len(x.Frame))),
			x.Frame, pad, u16(ngFlags, 4), u32(dir), u32(0))
	}
	_, err := w.Write(out)
	return err
}
