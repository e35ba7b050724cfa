package strict_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/analyse/strict"
	"github.com/goroce/goroce/roce/pcap"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the table of TestRecorded anew")

// recording is the capture of one run, at one place.
type recording struct {
	name    string
	packets []pcap.Packet
}

// recordings reads what TestRecorded of package analyse has recorded, on the wire and at either
// host.
func recordings(t *testing.T) (all []recording) {
	file, err := os.ReadFile("../testdata/recorded.zst")
	require.NoError(t, err)
	z, err := zstd.NewReader(nil)
	require.NoError(t, err)
	defer z.Close()
	b, err := z.DecodeAll(file, nil)
	require.NoError(t, err)
	next := func() []byte {
		n, k := binary.Uvarint(b)
		s := b[k : k+int(n)]
		b = b[k+int(n):]
		return s
	}
	for len(b) > 0 {
		name := string(next())
		for _, at := range []string{"A", "B", "wire"} {
			r, err := pcap.NewReader(bytes.NewReader(next()))
			require.NoError(t, err)
			x, d, f := recording{name: name + ", " + at}, &pcap.Decoder{}, pcap.Frame{}
			for r.Next(&f) == nil {
				for _, p := range d.Decode(&f) {
					p.Data, p.Payload = bytes.Clone(p.Data), bytes.Clone(p.Payload)
					x.packets = append(x.packets, p)
				}
			}
			all = append(all, x)
		}
	}
	return all
}

// spoiled does something wrong to a packet: what it returns comes in its place.
func spoiled(rng *rand.Rand, p pcap.Packet) []pcap.Packet {
	q := p
	switch rng.IntN(16) {
	case 0:
		return nil
	case 1:
		return []pcap.Packet{p, p}
	case 2:
		q.PSN = q.PSN.Add(1 + rng.IntN(3))
	case 3:
		q.PSN = q.PSN.Add(-1 - rng.IntN(3))
	case 4:
		q.Opcode = ib.Opcode(rng.IntN(0x18))
	case 5:
		q.AETH.Syndrome = ib.Syndrome(rng.IntN(256))
	case 6:
		q.AETH.MSN = ib.MSN(uint32(int(q.AETH.MSN)+rng.IntN(7)-3) & ib.PSNMask)
	case 7:
		q.RETH.Len += uint32(rng.IntN(3)) * 1000
	case 8:
		q.PayloadBytes = max(q.PayloadBytes+rng.IntN(9)-4, 0)
	case 9:
		q.Pad ^= 1
	case 10:
		q.ICRC = pcap.ICRCWrong
	case 11:
		q.Problem = "unknown opcode"
	case 12:
		q.PKey, q.TVer, q.Resv6, q.Resv7 = 0x7FFF, 1, 1, 2
	case 13:
		q.AckReq, q.Solicited, q.MigReq = !q.AckReq, !q.Solicited, !q.MigReq
	case 14:
		q.Flow.SrcPort++
		q.TrafficClass ^= 3
	case 15:
		q.AtNs += 5e6
	}
	return []pcap.Packet{q}
}

// What is said of packets that do not change, as they are and with one in twenty spoiled: how often
// each rule is broken, and a digest of everything. It is here to notice changes that nobody meant;
// whether what is said is right is the matter of the other tests.
func TestRecorded(t *testing.T) {
	seeds.Slow(t)
	var table strings.Builder
	for i, x := range recordings(t) {
		if seeds.Race && i%8 != 0 {
			continue // nothing here runs side by side
		}
		for j, o := range []strict.Options{{}, {Lossless: true}, {Complete: true, Lossless: true}, {},
			{Lossless: true}, {Complete: true}, {Complete: true, Lossless: true}} {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(j)))
			c := strict.New(o)
			for _, p := range x.packets {
				some := []pcap.Packet{p}
				if j >= 3 && rng.IntN(20) == 0 {
					some = spoiled(rng, p)
				}
				for k := range some {
					c.Add(&some[k])
				}
			}
			r := c.Report()
			text, err := json.MarshalIndent(r, "", " ")
			require.NoError(t, err)
			if seeds.One() {
				t.Logf("%s, %+v: %s", x.name, o, text)
			}
			sum := sha256.Sum256(text)
			fmt.Fprintf(&table, "%s, %d: %x", x.name, j, sum[:4])
			for _, rule := range slices.Sorted(maps.Keys(r.Broken)) {
				fmt.Fprintf(&table, " %s %d+%d", rule, r.Broken[rule].Certain, r.Broken[rule].Possible)
			}
			table.WriteByte('\n')
		}
	}
	const name = "testdata/recorded.txt"
	if *update && !seeds.Race {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(name, []byte(table.String()), 0o644))
		return
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	if seeds.Race {
		for line := range strings.Lines(table.String()) {
			require.True(t, strings.Contains(string(want), line), "not in the table: %s", line)
		}
		return
	}
	require.Equal(t, string(want), table.String(), "run with -update, and look at the difference")
}
