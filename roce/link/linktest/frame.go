package linktest

import (
	"net"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/capture"
	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

// SendFrames sends frames that a link would never send, from the namespace.
func SendFrames(t testing.TB, ns *Namespace, frames ...[]byte) {
	t.Helper()
	ns.Do(func() {
		ifi, err := net.InterfaceByName(Device)
		require.NoError(t, err)
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		for _, f := range frames {
			require.NoError(t, unix.Sendto(fd, f, 0, &unix.SockaddrLinklayer{Ifindex: ifi.Index}))
		}
	})
}

// Frame says in what a frame differs from a good one. The zero value is a good one.
type Frame struct {
	IP6            bool
	VLAN           int // -1: priority tag only
	Options        []capture.IPv4Option
	Src, Dst       netip.Addr
	DstPort        uint16
	Payload        int // bytes
	Ident          uint16
	ICRCIdent      uint16 // what the ICRC is made with differs from Ident by so much
	ICRCXor        uint32
	NoDF           bool
	Fragment, More bool
	MAC            string
	Spoil          func(b []byte) // the finished frame
}

// MakeFrame makes a frame from A to B.
func MakeFrame(t testing.TB, n *Net, o Frame) []byte {
	t.Helper()
	if o.DstPort == 0 {
		o.DstPort = ib.UDPPort
	}
	a, b := n.A4, n.B4
	if o.IP6 {
		a, b = n.A6, n.B6
	}
	if !o.Src.IsValid() {
		o.Src = a
	}
	if !o.Dst.IsValid() {
		o.Dst = b
	}
	if o.MAC == "" {
		o.MAC = n.MACB
	}
	src, _ := net.ParseMAC(n.MACA)
	dst, _ := net.ParseMAC(o.MAC)
	f := capture.Frame{
		SrcMAC: src, DstMAC: dst, Tagged: o.VLAN != 0, VLAN: uint16(max(o.VLAN, 0)), Priority: 3,
		Flow:     ib.Flow{Src: o.Src, Dst: o.Dst, SrcPort: 0xC001, DstPort: o.DstPort},
		HopLimit: 64, Ident: o.Ident, Options: o.Options,
		DF: !o.NoDF && !o.More && !o.Fragment, More: o.More && !o.Fragment,
	}
	if o.Fragment {
		f.FragUnits = 10
	}
	body := make([]byte, ib.BTHBytes+o.Payload+ib.ICRCBytes)
	body[0] = byte(ib.RCSendOnly)
	c := ib.NewICRC(f.Flow)
	if o.NoDF {
		c = c.WithoutDF()
	}
	ib.PutICRC(body[len(body)-4:], c.Checksum(o.Ident+o.ICRCIdent, body[:len(body)-4])^o.ICRCXor)
	f.Payload = body
	out, err := f.Build()
	require.NoError(t, err)
	if o.Spoil != nil {
		o.Spoil(out)
	}
	return out
}
