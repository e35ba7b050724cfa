package captures

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// counted is the requests of one direction of a connection, as their sender sees them.
type counted struct {
	qpn   ib.QPN // that they go to
	first ib.PSN
	mtu   int      // of READ responses
	of    []ib.MSN // for each PSN, the messages before the one that has it
	read  []bool   // for each PSN, whether it is a READ's
	sent  ib.MSN   // messages
	open  bool     // within one
}

// request counts a packet that is sent for the first time.
func (c *counted) request(p *ib.Packet) {
	info := p.Opcode.Info()
	if len(c.of) == 0 {
		c.first = p.PSN
	}
	if p.PSN != c.first.Add(len(c.of)) {
		return // sent again
	}
	n := 1
	if info.Op == ib.OpRead {
		n = max((int(p.RETH.Len)+c.mtu-1)/c.mtu, 1)
	}
	if !c.open {
		c.sent++
	}
	c.open = info.Pos&ib.Last == 0
	for range n {
		c.of, c.read = append(c.of, c.sent-1), append(c.read, info.Op == ib.OpRead)
	}
}

// fits reports whether the MSN of a response lies where package transport asks for it.
func (c *counted) fits(p *ib.Packet) (known, ok bool) {
	i := p.PSN.Diff(c.first)
	if i < 0 || i >= len(c.of) {
		return false, false
	}
	ahead := int(p.AETH.MSN) - int(c.of[i])
	s := p.AETH.Syndrome
	if s.Kind() == ib.SyndromeNAK && s != ib.NAKSequence && !c.read[i] {
		return true, ahead == 0
	}
	return true, ahead >= 0 && ahead <= int(c.sent-c.of[i])
}

// What a requester asks of an MSN refuses no response of a kernel: of none of the captures, in
// which packets were lost, doubled, overtaken and refused.
func TestHonestMSN(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(data, "*", "*.requester.pcapng"))
	require.NoError(t, err)
	plain, err := filepath.Glob("../../ib/testdata/captures/*.pcap")
	require.NoError(t, err)
	checked := map[string]int{}
	for _, name := range append(files, plain...) {
		responder := "rxe"
		if _, who, ok := strings.Cut(strings.TrimSuffix(filepath.Base(name), ".requester.pcapng"), "-to-"); ok {
			responder = who
		}
		checked[responder] += checkMSNs(t, name)
	}
	for _, who := range []string{"rxe", "rxe-6.1", "rxe-6.12", "goroce"} {
		require.Greater(t, checked[who], 100, "%s: %v", who, checked)
	}
}

// checkMSNs holds all responses of a capture to the rule, and returns how many there are.
func checkMSNs(t *testing.T, name string) (checked int) {
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	r, err := pcap.NewReader(f)
	require.NoError(t, err)
	type way struct{ src, dst netip.Addr }
	flows := map[way][]*counted{}
	var d pcap.Decoder
	var fr pcap.Frame
	mtu := ib.MTU1024.Bytes()
	for {
		if err := r.Next(&fr); errors.Is(err, io.EOF) {
			return checked
		} else {
			require.NoError(t, err, name)
		}
		for _, p := range d.Decode(&fr) {
			info := p.Opcode.Info()
			if p.ICMP != nil || p.Problem != "" || p.ICRC == pcap.ICRCWrong || info.Transport != ib.RC {
				continue
			}
			if !info.Response {
				w := way{p.Flow.Src, p.Flow.Dst}
				var c *counted
				for _, x := range flows[w] {
					if x.qpn == p.DestQP {
						c = x
					}
				}
				if c == nil {
					c = &counted{qpn: p.DestQP, mtu: mtu}
					flows[w] = append(flows[w], c)
				}
				c.request(&p.Packet)
				continue
			}
			if info.Headers&ib.HasAETH == 0 {
				continue
			}
			known, fits := false, false
			for _, c := range flows[way{p.Flow.Dst, p.Flow.Src}] {
				k, ok := c.fits(&p.Packet)
				known, fits = known || k, fits || ok
			}
			if known {
				checked++
				require.True(t, fits, "%s, frame %d: %v PSN %d, %v", name, p.Frame, p.Opcode, p.PSN, p.AETH)
			}
		}
	}
}
