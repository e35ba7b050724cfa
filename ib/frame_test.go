package ib_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sort"
	"testing"

	"github.com/goroce/goroce/ib"
)

// frame is what the tests know of one IP packet that carries RoCE v2.
type frame struct {
	capture string // file name, or the name of a vector
	index   int    // of the frame in its capture, from 1
	ip      []byte // from the IP header to the end of the ICRC
	flow    ib.Flow
	id      uint16 // IPv4 identification
	noDF    bool
	udp     []byte // UDP payload: BTH through ICRC
}

func (f frame) String() string { return fmt.Sprintf("%s#%d", f.capture, f.index) }

// icrc returns the calculator for the frame's flow.
func (f frame) icrc() *ib.ICRC {
	c := ib.NewICRC(f.flow)
	return &c
}

// parseIP reads the IP and UDP headers of a packet that starts at its IP
// header. Bytes after the IP total length (Ethernet padding) are cut.
func parseIP(b []byte) (f frame, err error) {
	be := binary.BigEndian
	var udp []byte
	switch {
	case len(b) >= 20 && b[0] == 0x45:
		total := int(be.Uint16(b[2:]))
		if total < 28 || total > len(b) || b[9] != 17 {
			return f, errors.New("not a UDP packet over IPv4")
		}
		b = b[:total]
		f.id = be.Uint16(b[4:])
		f.noDF = b[6]&0x40 == 0
		f.flow.Src = netip.AddrFrom4([4]byte(b[12:]))
		f.flow.Dst = netip.AddrFrom4([4]byte(b[16:]))
		udp = b[20:]
	case len(b) >= 48 && b[0]>>4 == 6:
		total := int(be.Uint16(b[4:])) + 40
		if total < 48 || total > len(b) || b[6] != 17 {
			return f, errors.New("not a UDP packet over IPv6")
		}
		b = b[:total]
		f.flow.Src = netip.AddrFrom16([16]byte(b[8:]))
		f.flow.Dst = netip.AddrFrom16([16]byte(b[24:]))
		udp = b[40:]
	default:
		return f, errors.New("not an IP packet")
	}
	f.flow.SrcPort, f.flow.DstPort = be.Uint16(udp), be.Uint16(udp[2:])
	if int(be.Uint16(udp[4:])) != len(udp) {
		return f, errors.New("UDP length is not what IP says")
	}
	f.ip, f.udp = b, udp[8:]
	return f, nil
}

// parsePcap returns the RoCE v2 packets of a classic little-endian pcap file of Ethernet frames.
func parsePcap(name string, b []byte) (frames []frame, err error) {
	le := binary.LittleEndian
	if len(b) < 24 || le.Uint32(b) != 0xA1B2C3D4 || le.Uint32(b[20:]) != 1 {
		return nil, errors.New("not a little-endian Ethernet pcap")
	}
	b = b[24:]
	for index := 1; len(b) > 0; index++ {
		if len(b) < 16 {
			return nil, errors.New("record header cut off")
		}
		n := int(le.Uint32(b[8:]))
		if n != int(le.Uint32(b[12:])) || len(b) < 16+n {
			return nil, errors.New("record cut off")
		}
		eth := b[16 : 16+n]
		b = b[16+n:]
		if t := binary.BigEndian.Uint16(eth[12:]); t != 0x0800 && t != 0x86DD {
			continue
		}
		f, err := parseIP(eth[14:])
		if err != nil || f.flow.DstPort != ib.UDPPort {
			continue
		}
		f.capture, f.index = name, index
		frames = append(frames, f)
	}
	return frames, nil
}

// captures returns every RoCE v2 packet of testdata/captures.
func captures(t testing.TB) []frame {
	t.Helper()
	files, err := filepath.Glob("testdata/captures/*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatal("no captures in testdata", err)
	}
	sort.Strings(files)
	var all []frame
	for _, name := range files {
		all = append(all, capture(t, filepath.Base(name))...)
	}
	return all
}

// capture returns the RoCE v2 packets of one capture.
func capture(t testing.TB, name string) []frame {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "captures", name))
	if err != nil {
		t.Fatal(err)
	}
	frames, err := parsePcap(name, b)
	if err != nil {
		t.Fatal(name, err)
	}
	if len(frames) == 0 {
		t.Fatal(name, "holds no RoCE v2 packet")
	}
	return frames
}
