package probe

import (
	"bytes"
	"encoding/binary"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"golang.org/x/net/bpf"
)

// rawView sees IPv4 packets with their header, beside a UDP socket. The kernel gives a packet to
// raw sockets first, so that when the UDP socket has one, the copy is here.
type rawView struct {
	fd  int
	buf []byte
	// last are the headers seen and not asked for yet, the oldest first.
	last []rawPacket
}

type rawPacket struct {
	from netip.AddrPort
	key  [rawKeyBytes]byte
	id   uint16
	noDF bool
}

// rawKeyBytes at the front of a UDP payload tell one packet from others: with run, number and time.
const rawKeyBytes = ib.BTHBytes + ib.DETHBytes + 44

// maxRaw bounds what is kept for the UDP socket, which may have lost the packet.
const maxRaw = 64

// openRaw opens one for a local address and port, or returns nil: without CAP_NET_RAW, and for
// IPv6, where raw sockets do not show the header, and the ICRC covers nothing of it that a UDP
// socket does not show.
func openRaw(at netip.AddrPort) *rawView {
	if !at.Addr().Is4() {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return nil
	}
	v := &rawView{fd: fd, buf: make([]byte, 64<<10)}
	if v.filter(at.Port()) != nil || unix.Bind(fd, &unix.SockaddrInet4{Addr: at.Addr().As4()}) != nil {
		unix.Close(fd)
		return nil
	}
	return v
}

// filter lets packets to the port through, and no others.
func (v *rawView) filter(port uint16) error {
	prog, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadMemShift{Off: 0}, // the length of the IP header
		bpf.LoadIndirect{Off: 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(port), SkipFalse: 1},
		bpf.RetConstant{Val: 1 << 16},
		bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return err
	}
	f := make([]unix.SockFilter, len(prog))
	for i, p := range prog {
		f[i] = unix.SockFilter{Code: p.Op, Jt: p.Jt, Jf: p.Jf, K: p.K}
	}
	return unix.SetsockoptSockFprog(v.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]})
}

// tell adds what the header of a packet says to what the UDP socket says.
func (v *rawView) tell(b []byte, a *arrival) {
	v.drain()
	if len(b) < rawKeyBytes {
		return
	}
	for i := range v.last {
		p := &v.last[i]
		if p.from == a.from && bytes.Equal(p.key[:], b[:rawKeyBytes]) {
			a.header, a.id, a.noDF = true, p.id, p.noDF
			v.last = append(v.last[:0], v.last[i+1:]...)
			return
		}
	}
}

// drain reads what there is.
func (v *rawView) drain() {
	for range maxRaw {
		n, _, err := unix.Recvfrom(v.fd, v.buf, unix.MSG_DONTWAIT)
		if err != nil {
			return
		}
		if p, ok := parseRaw(v.buf[:n]); ok {
			if len(v.last) == maxRaw {
				v.last = append(v.last[:0], v.last[1:]...)
			}
			v.last = append(v.last, p)
		}
	}
}

// parseRaw reads an IPv4 packet.
func parseRaw(b []byte) (p rawPacket, ok bool) {
	if len(b) < ib.IPv4HeaderBytes {
		return p, false
	}
	head := int(b[0]&0x0F) * 4
	if head < ib.IPv4HeaderBytes || len(b) < head+ib.UDPHeaderBytes+rawKeyBytes {
		return p, false
	}
	p.from = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[12:16])), binary.BigEndian.Uint16(b[head:]))
	p.id = binary.BigEndian.Uint16(b[4:])
	p.noDF = b[6]&0x40 == 0
	copy(p.key[:], b[head+ib.UDPHeaderBytes:])
	return p, true
}

func (v *rawView) close() { unix.Close(v.fd) }
