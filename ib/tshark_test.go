package ib_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/goroce/goroce/ib"
)

// tsharkFields are the fields asked of tshark's InfiniBand dissector, in the
// order of the columns that tsharkWant returns.
var tsharkFields = []string{
	"infiniband.bth.opcode", "infiniband.bth.se", "infiniband.bth.m", "infiniband.bth.padcnt", "infiniband.bth.tver",
	"infiniband.bth.p_key", "infiniband.bth.destqp", "infiniband.bth.a", "infiniband.bth.reserved7",
	"infiniband.bth.psn", "infiniband.deth.q_key", "infiniband.deth.srcqp",
	"infiniband.reth.va", "infiniband.reth.r_key", "infiniband.reth.dmalen",
	"infiniband.atomiceth.swapdt", "infiniband.atomiceth.cmpdt",
	"infiniband.aeth.syndrome", "infiniband.aeth.msn", "infiniband.atomicacketh.origremdt",
	"infiniband.immdt", "infiniband.ieth", "infiniband.invariant.crc", "_ws.malformed",
}

// tsharkWant returns what tshark should print for p, which was decoded from
// udp, one value a field; nil is a field that is not there.
func tsharkWant(p *ib.Packet, udp []byte) []any {
	flag := func(b bool) any {
		if b {
			return uint64(1)
		}
		return uint64(0)
	}
	when := func(h ib.Headers, v uint64) any {
		if !p.Opcode.Has(h) {
			return nil
		}
		return v
	}
	be32 := func(v uint32) string { return hex.EncodeToString(binary.BigEndian.AppendUint32(nil, v)) }
	want := []any{
		uint64(p.Opcode), flag(p.Solicited), flag(p.MigReq), uint64(p.Pad), uint64(p.TVer),
		uint64(p.PKey), uint64(p.DestQP), flag(p.AckReq), uint64(p.Resv7), uint64(p.PSN),
		when(ib.HasDETH, uint64(p.DETH.QKey)), when(ib.HasDETH, uint64(p.DETH.SrcQP)),
		when(ib.HasRETH, p.RETH.VA), when(ib.HasRETH, uint64(p.RETH.RKey)), when(ib.HasRETH, uint64(p.RETH.Len)),
		when(ib.HasAtomicETH, p.Atomic.SwapAdd), when(ib.HasAtomicETH, p.Atomic.Compare),
		when(ib.HasAETH, uint64(p.AETH.Syndrome)), when(ib.HasAETH, uint64(p.AETH.MSN)),
		when(ib.HasAtomicAckETH, p.AtomicAck), nil, nil,
		uint64(binary.BigEndian.Uint32(udp[len(udp)-ib.ICRCBytes:])), nil,
	}
	if p.Opcode == ib.CNP {
		want[22] = anything{} // tshark 4.0 stops after the BTH
	}
	if p.Opcode.Has(ib.HasAtomicETH) { // tshark shows the first two fields under the RETH's names
		want[12], want[13] = p.Atomic.VA, uint64(p.Atomic.RKey)
	}
	if p.Opcode.Has(ib.HasImmDt) {
		want[20] = be32(p.ImmDt)
	}
	if p.Opcode.Has(ib.HasIETH) {
		want[21] = be32(uint32(p.IETH))
	}
	return want
}

// TestAgainstTshark decodes the captures, the vectors and one packet of every
// other opcode with tshark's InfiniBand dissector and compares field by field.
func TestAgainstTshark(t *testing.T) {
	if testing.Short() {
		t.Skip("short: tshark takes a second to begin")
	}
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark, the decoder by others that this compares with, is not installed: ", err)
	}
	frames := captures(t)
	for _, v := range vectors {
		frames = append(frames, v.frame(t))
	}
	frames = append(frames, oneOfEach(t)...)
	file := filepath.Join(t.TempDir(), "all.pcap")
	if err := os.WriteFile(file, buildPcap(frames), 0o600); err != nil {
		t.Fatal(err)
	}
	// RPC over RDMA is guessed from payload bytes, wrongly here.
	args := []string{"-n", "--disable-protocol", "rpcordma", "-r", file, "-T", "fields", "-E", "separator=|",
		"-E", "occurrence=f"}
	for _, f := range tsharkFields {
		args = append(args, "-e", f)
	}
	var stderr bytes.Buffer
	cmd := exec.Command(tshark, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(frames) {
		t.Fatalf("tshark printed %d lines for %d packets", len(lines), len(frames))
	}
	for i, f := range frames {
		var p ib.Packet
		if err := p.Decode(f.udp); err != ib.DecodeOK {
			t.Fatal(f, err)
		}
		switch p.Opcode {
		case ib.RCFlush, ib.RCAtomicWrite:
			continue // tshark 4.0 does not know annex A19
		}
		got := strings.Split(lines[i], "|")
		if len(got) != len(tsharkFields) {
			t.Fatalf("%v: %q", f, lines[i])
		}
		for k, want := range tsharkWant(&p, f.udp) {
			if !tsharkEqual(got[k], want) {
				t.Errorf("%v, %v: %s is %q for tshark, %v here", f, p.Opcode, tsharkFields[k], got[k], want)
			}
		}
	}
	t.Logf("%d packets compared", len(frames))
}

// anything stands for a field that is not compared.
type anything struct{}

func tsharkEqual(got string, want any) bool {
	switch want := want.(type) {
	case anything:
		return true
	case nil:
		return got == ""
	case string:
		return strings.ReplaceAll(got, ":", "") == want
	case uint64:
		switch got { // newer versions print booleans as words
		case "True":
			got = "1"
		case "False":
			got = "0"
		}
		v, err := strconv.ParseUint(got, 0, 64)
		return err == nil && v == want
	}
	return false
}

// oneOfEach builds one packet of every known opcode with distinct values in every field.
func oneOfEach(t testing.TB) []frame {
	t.Helper()
	flow := vectors[0].frame(t).flow
	icrc := ib.NewICRC(flow)
	var frames []frame
	for o := range 256 {
		p := distinctPacket(ib.Opcode(o))
		if !p.Opcode.Known() {
			continue
		}
		f, err := parseIP(ipv4Packet(flow, p.Append(nil, &icrc, 0)))
		if err != nil {
			t.Fatal(err)
		}
		f.capture, f.index = p.Opcode.String(), 1
		frames = append(frames, f)
	}
	return frames
}

// distinctPacket returns a packet of opcode o whose fields all differ. Its
// payload is legal at an MTU of 256.
func distinctPacket(o ib.Opcode) ib.Packet {
	p := ib.Packet{
		BTH: ib.BTH{
			Opcode: o, Solicited: true, MigReq: true, AckReq: true, Resv7: 0x55,
			PKey: 0x8123, DestQP: 0x456789, PSN: 0xABCDEF,
		},
		DETH: ib.DETH{QKey: 0x80010203, SrcQP: 0x040506},
		FETH: ib.FlushPersistence | ib.FlushMR,
		RETH: ib.RETH{VA: 0x1011121314151617, RKey: 0x18191A1B, Len: 0x1C1D1E1F},
		Atomic: ib.AtomicETH{VA: 0x2021222324252627, RKey: 0x28292A2B, SwapAdd: 0x3031323334353637,
			Compare: 0x38393A3B3C3D3E3F},
		AETH:      ib.AETH{Syndrome: ib.NAKSequence, MSN: 0x414243},
		AtomicAck: 0x5051525354555657,
		ImmDt:     0x61626364,
		IETH:      0x71727374,
	}
	switch o.Info().Payload {
	case ib.PayloadFull:
		p.Payload = make([]byte, 256)
	case ib.PayloadOneToMTU, ib.PayloadUpToMTU:
		p.Payload = make([]byte, 101)
	case ib.PayloadEight:
		p.Payload = make([]byte, 8)
	}
	for i := range p.Payload {
		p.Payload[i] = byte(i + 1)
	}
	p.Pad = uint8(ib.PadFor(len(p.Payload)))
	return p
}

// ipv4Packet puts IPv4 and UDP headers before a UDP payload. Header checksum,
// TTL and TOS are left zero: nothing here looks at them.
func ipv4Packet(f ib.Flow, udp []byte) []byte {
	be := binary.BigEndian
	b := make([]byte, ib.IPv4HeaderBytes+ib.UDPHeaderBytes, ib.IPv4HeaderBytes+ib.UDPHeaderBytes+len(udp))
	b[0], b[6], b[9] = 0x45, 0x40, 17
	be.PutUint16(b[2:], uint16(cap(b)))
	s, d := f.Src.As4(), f.Dst.As4()
	copy(b[12:], s[:])
	copy(b[16:], d[:])
	be.PutUint16(b[20:], f.SrcPort)
	be.PutUint16(b[22:], f.DstPort)
	be.PutUint16(b[24:], uint16(ib.UDPHeaderBytes+len(udp)))
	return append(b, udp...)
}

// buildPcap wraps packets in Ethernet and a classic pcap file.
func buildPcap(frames []frame) []byte {
	le := binary.LittleEndian
	b := make([]byte, 24)
	le.PutUint32(b, 0xA1B2C3D4)
	le.PutUint16(b[4:], 2)
	le.PutUint16(b[6:], 4)
	le.PutUint32(b[16:], 1<<16)
	le.PutUint32(b[20:], 1)
	for _, f := range frames {
		var eth [14]byte
		binary.BigEndian.PutUint16(eth[12:], 0x0800)
		if f.flow.Src.Is6() {
			binary.BigEndian.PutUint16(eth[12:], 0x86DD)
		}
		var rec [16]byte
		le.PutUint32(rec[8:], uint32(len(eth)+len(f.ip)))
		le.PutUint32(rec[12:], uint32(len(eth)+len(f.ip)))
		b = append(append(append(b, rec[:]...), eth[:]...), f.ip...)
	}
	return b
}
