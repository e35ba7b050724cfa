package linktest

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/capture"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// RunHostile sends frames to a link that no peer would send: cut off anywhere, with any byte
// changed, with any length in a header, and with any virtio header that the sender's kernel takes.
// Only good packets come up, each frame is counted once at most, and whatever was sent, good
// packets come up behind it. Afterwards check, if not nil, looks at the link.
func RunHostile(t *testing.T, open Opener, check func(t *testing.T, l link.Link)) {
	t.Parallel()
	n := NewNet(t, 9000)
	for _, family := range []string{"IPv4", "IPv6"} {
		t.Run(family, func(t *testing.T) {
			ip6 := family == "IPv6"
			addr := n.B4
			if ip6 {
				addr = n.B6
			}
			b := open.Open(t, n.B, addr)
			h := hostile{t: t, n: n, b: b, ip6: ip6, long: 8000}
			if oneBuffer(t, b) {
				h.long = 3000
			}
			t.Run("cut off", h.cutOff)
			t.Run("lengths", h.lengths)
			t.Run("any byte", h.anyByte)
			t.Run("virtio header", h.virtio)
			Drain(t, b)
			if check != nil {
				check(t, b)
			}
		})
	}
}

type hostile struct {
	t   *testing.T
	n   *Net
	b   link.Link
	ip6 bool

	long int // payload of a frame that is as long as the link takes
}

// etherBytes is the length of an Ethernet header.
const etherBytes = 14

// endPayload is that of the packet that ends a batch of frames.
const endPayload = 40

// send sends frames, and after them a good one, and returns what has come up before
// that. A virtio header before each frame is optional.
func (h *hostile) send(t *testing.T, vnet bool, frames ...[]byte) (up [][]byte) {
	t.Helper()
	since := countersOf(h.b)
	sent := uint64(0)
	end := MakeFrame(t, h.n, Frame{IP6: h.ip6, Ident: 77, Payload: endPayload})
	if vnet {
		end = append(make([]byte, vnetBytes), end...)
	}
	h.n.A.Do(func() {
		ifi, err := net.InterfaceByName(Device)
		require.NoError(t, err)
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		if vnet {
			require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1))
		}
		for _, f := range frames {
			// What the kernel refuses does no harm.
			if unix.Sendto(fd, f, 0, &unix.SockaddrLinklayer{Ifindex: ifi.Index}) == nil {
				sent++
			}
		}
		// A frame that was cut up into very many may have filled the way there.
		for stop := time.Now().
			Add(giveUp); unix.Sendto(fd, end, 0, &unix.SockaddrLinklayer{Ifindex: ifi.Index}) != nil; {
			require.True(t, time.Now().Before(stop))
		}
	})
	for ended := false; !ended; {
		ended = h.receive(t, &up)
	}
	s := since()
	require.Zero(t, s.RxOverflow, "%+v", s)
	if !vnet { // one frame is one packet
		require.LessOrEqual(t, s.RxPackets+s.RxICRC+s.RxShort+s.RxTruncated+s.RxMalformed, sent+1)
	}
	return up
}

// receive appends the packets that are there to up, and reports whether the one
// that ends a batch is among them.
func (h *hostile) receive(t *testing.T, up *[][]byte) (ended bool) {
	t.Helper()
	rx := make([]edge.RxPacket, 7)
	k, err := receive(h.b, rx)
	require.NoError(t, err)
	for _, p := range rx[:k] {
		if len(p.Data) == ib.BTHBytes+endPayload+ib.ICRCBytes {
			ended = true
		} else {
			*up = append(*up, append([]byte(nil), p.Data...))
		}
	}
	if k == 0 {
		start := h.b.Now()
		require.NoError(t, h.b.Wait(giveUp))
		require.Less(t, h.b.Now()-start, int64(giveUp), "no packet comes up any more: %+v", h.b.Stats())
	}
	return ended
}

// frame makes a good frame, which no other has the length of.
func (h *hostile) frame(t *testing.T, payload, vlan int) []byte {
	return MakeFrame(t, h.n, Frame{IP6: h.ip6, Ident: 5, Payload: payload, VLAN: vlan})
}

// batch is how many frames are sent before the link is looked at: fewer than any link has room for.
const batch = 100

func (h *hostile) cutOff(t *testing.T) {
	for _, f := range [][]byte{h.frame(t, 64, 0), h.frame(t, 64, -1)} {
		var frames [][]byte
		for n := etherBytes; n < len(f); n++ {
			frames = append(frames, f[:n])
		}
		for len(frames) > 0 {
			k := min(batch, len(frames))
			require.Empty(t, h.send(t, false, frames[:k]...))
			frames = frames[k:]
		}
	}
	// A long one, where it begins, where links may have a border, and where it ends.
	f := h.frame(t, h.long, 0)
	var frames [][]byte
	for _, at := range []int{50, 3800, 3840, 4096, 7600, 7680, h.long, len(f) - 1} {
		for n := at - 4; n < min(at+4, len(f)); n++ {
			frames = append(frames, f[:n])
		}
	}
	require.Empty(t, h.send(t, false, frames...))
}

// lengths puts wrong values into the fields that say how long something is, with
// bytes behind the packet or without.
func (h *hostile) lengths(t *testing.T) {
	var frames [][]byte
	fields := []int{etherBytes + 2, etherBytes + 24} // total length, UDP length
	if h.ip6 {
		fields = []int{etherBytes + 4, etherBytes + 44}
	}
	for _, padding := range []int{0, 100} {
		good := append(h.frame(t, 64, 0), make([]byte, padding)...)
		for _, at := range fields {
			right := int(binary.BigEndian.Uint16(good[at:]))
			for _, v := range []int{0, 1, 7, 8, 9, 19, 20, 27, 28, 29, 39, 40, 47, 48, right - 1, right + 1,
				right + 99, 1500, 0x7FFF, 0x8000, 0xFFFF} {
				if v == right {
					continue
				}
				f := append([]byte(nil), good...)
				binary.BigEndian.PutUint16(f[at:], uint16(v))
				frames = append(frames, f)
			}
		}
	}
	up := h.send(t, false, frames...)
	if h.ip6 && h.b.Capabilities().Name == "udp" {
		// The kernel takes a UDP length of 0 for that of the IP packet (RFC 2675).
		good := h.frame(t, 64, 0)
		up = slices.DeleteFunc(up, func(b []byte) bool { return bytes.HasSuffix(good, b) })
	}
	require.Empty(t, up)
	if !h.ip6 {
		var options [][]byte
		for n := range 40 {
			options = append(options,
				MakeFrame(t, h.n, Frame{Payload: 64, Options: []capture.IPv4Option{{Type: 7, Data: make([]byte, n)}}}))
		}
		require.Empty(t, h.send(t, false, options[:36]...))
	}
}

// anyByte changes bytes. What a changed byte does not matter to, as the UDP
// checksum, comes up unharmed.
func (h *hostile) anyByte(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	good := h.frame(t, 64, 0)
	body := good[len(good)-ib.BTHBytes-64-ib.ICRCBytes:]
	for range times(20) {
		var frames [][]byte
		for range batch {
			f := append([]byte(nil), good...)
			for range 1 + r.IntN(3) {
				f[etherBytes-2+r.IntN(len(f)-etherBytes+2)] = byte(r.Uint32())
			}
			frames = append(frames, f)
		}
		for _, up := range h.send(t, false, frames...) {
			// The ICRC leaves out a byte of the BTH, which congestion changes.
			up[4] = body[4]
			require.Equal(t, body, up)
		}
	}
}

// vnetBytes is the size of struct virtio_net_hdr.
const vnetBytes = 10

// virtio sends frames with a virtio header whose fields make no sense, or not together.
func (h *hostile) virtio(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	l4 := uint16(etherBytes + 20)
	if h.ip6 {
		l4 += 20
	}
	some := func(usual ...uint16) uint16 {
		if k := r.IntN(len(usual) + 2); k < len(usual) {
			return usual[k]
		}
		return uint16(r.Uint32()) >> r.IntN(16)
	}
	for range times(40) {
		var frames [][]byte
		for range batch / 4 {
			f := h.frame(t, []int{64, 1000, h.long}[r.IntN(3)], 0)
			v := make([]byte, vnetBytes, vnetBytes+len(f))
			v[0] = byte(some(0, unix.VIRTIO_NET_HDR_F_NEEDS_CSUM, unix.VIRTIO_NET_HDR_F_NEEDS_CSUM))
			v[1] = byte(some(unix.VIRTIO_NET_HDR_GSO_UDP_L4, unix.VIRTIO_NET_HDR_GSO_UDP_L4,
				unix.VIRTIO_NET_HDR_GSO_UDP, unix.VIRTIO_NET_HDR_GSO_TCPV4, 0))
			e := binary.NativeEndian
			e.PutUint16(v[2:], some(l4+8, 0, 14)) // length of the headers
			e.PutUint16(v[4:], some(1, 15, 16, 80, 1016))
			e.PutUint16(v[6:], some(l4, l4, 0, 14)) // where the checksum begins
			e.PutUint16(v[8:], some(6, 6, 16))
			frames = append(frames, append(v, f...))
		}
		for _, up := range h.send(t, true, frames...) {
			// Any packet in it has the ICRC of the whole frame: it came as it was.
			require.Contains(t, []int{64, 1000, h.long}, len(up)-ib.BTHBytes-ib.ICRCBytes)
		}
	}
}
