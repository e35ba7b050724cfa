package ib_test

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
)

// referenceICRC is the ICRC by the letter: mask a copy of the packet, put the
// eight bytes of ones before it, and take the CRC-32 of it all. ip starts at
// the IP header and ends before the ICRC, whose four bytes its lengths count.
func referenceICRC(ip []byte) uint32 {
	b := append([]byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}, ip...)
	p, udp := b[8:], b[8+ib.IPv4HeaderBytes:]
	if p[0]>>4 == 4 {
		p[1], p[8], p[10], p[11] = 0xFF, 0xFF, 0xFF, 0xFF
	} else {
		udp = b[8+ib.IPv6HeaderBytes:]
		p[0], p[1], p[2], p[3], p[7] = 0x6F, 0xFF, 0xFF, 0xFF, 0xFF
	}
	udp[6], udp[7], udp[12] = 0xFF, 0xFF, 0xFF
	return crc32.ChecksumIEEE(b)
}

func ipv6Packet(f ib.Flow, udp []byte) []byte {
	b := make([]byte, ib.IPv6HeaderBytes+ib.UDPHeaderBytes)
	b[0], b[6] = 0x60, 17
	s, d := f.Src.As16(), f.Dst.As16()
	copy(b[8:], s[:])
	copy(b[24:], d[:])
	be := binary.BigEndian
	be.PutUint16(b[4:], uint16(len(udp)+ib.UDPHeaderBytes))
	be.PutUint16(b[40:], f.SrcPort)
	be.PutUint16(b[42:], f.DstPort)
	be.PutUint16(b[44:], uint16(len(udp)+ib.UDPHeaderBytes))
	return append(b, udp...)
}

// TestICRCAgainstReference compares with the reference on random packets of
// every length, both families, with and without DF, cut in every way.
func TestICRCAgainstReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := ib.BTHBytes; n <= ib.MaxPacketBytes; n += 1 + n/40 {
		udp := make([]byte, n+ib.ICRCBytes)
		for i := range udp {
			udp[i] = byte(rng.Uint32())
		}
		var s, d [16]byte
		for i := range s {
			s[i], d[i] = byte(rng.Uint32()), byte(rng.Uint32())
		}
		s[0], d[0] = 0xFD, 0xFD
		id, sport, dport := uint16(rng.Uint32()), uint16(rng.Uint32()), uint16(rng.Uint32())
		head := 1 + rng.IntN(n)

		f6 := ib.Flow{Src: netip.AddrFrom16(s), Dst: netip.AddrFrom16(d), SrcPort: sport, DstPort: dport}
		f4 := ib.Flow{Src: netip.AddrFrom4([4]byte(s[:])), Dst: netip.AddrFrom4([4]byte(d[:])),
			SrcPort: sport, DstPort: dport}
		mapped := f4
		mapped.Src, mapped.Dst = netip.AddrFrom16(f4.Src.As16()), netip.AddrFrom16(f4.Dst.As16())
		ip6, ip4 := ipv6Packet(f6, udp), ipv4Packet(f4, udp)
		binary.BigEndian.PutUint16(ip4[4:], id)
		noDF := append([]byte(nil), ip4...)
		noDF[6] = 0

		for _, c := range []struct {
			name string
			icrc ib.ICRC
			ip   []byte
		}{
			{"IPv6", ib.NewICRC(f6), ip6},
			{"IPv4", ib.NewICRC(f4), ip4},
			{"IPv4-mapped", ib.NewICRC(mapped), ip4},
			{"IPv4 without DF", ib.NewICRC(f4).WithoutDF(), noDF},
			{"IPv6 without DF", ib.NewICRC(f6).WithoutDF(), ip6},
		} {
			want := referenceICRC(c.ip[:len(c.ip)-ib.ICRCBytes])
			if got := c.icrc.Checksum(id, udp[:n]); got != want {
				t.Fatalf("%s, %d bytes: ICRC %08x, want %08x", c.name, n, got, want)
			}
			if head >= ib.BTHBytes {
				if got := ib.Extend(c.icrc.Head(len(udp), id, udp[:head]), udp[head:n]); got != want {
					t.Fatalf("%s, %d bytes in pieces of %d: ICRC %08x, want %08x", c.name, n, head, got, want)
				}
			}
		}
	}
}

// TestICRCHeadShort calls Head with too few bytes: any answer, no panic.
func TestICRCHeadShort(t *testing.T) {
	icrc := vectors[0].frame(t).icrc()
	for n := range ib.BTHBytes {
		icrc.Head(n, 0, make([]byte, n))
		icrc.Checksum(0, make([]byte, n))
		icrc.ChecksumFlushRxe(0, make([]byte, n))
	}
}
