package ether

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce/pcap"
)

// Each view has what came by there, and each act says where its packet is.
func TestViews(t *testing.T) {
	s, a, b := bench(t)
	v := s.Views(s.Port("a"), s.Port("b"), func(*Packet) bool { return true })
	rule := func(k Kind, psn uint32) *Rule {
		r := &Rule{Match: Match{PSN: psn}, Kind: k}
		s.Add(r)
		return r
	}
	drop, twice, hold, bad, lost := rule(Drop, 2), rule(Duplicate, 3), rule(Hold, 4), rule(Corrupt, 6), rule(Swallow, 7)
	for psn := range uint32(8) {
		a.in <- frame(t, psn+1)
	}
	// In the order in which they come: 4 is held until 5 is through, 7 is lost behind the port.
	require.Equal(t, []uint32{1, 3, 3, 5, 4, 6, 8}, psns(t, b, 7))
	v.Stop()
	for _, c := range []struct {
		rule *Rule
		sent int
		got  []int
		next int
	}{{drop, 2, nil, 2}, {twice, 3, []int{2, 3}, 0}, {hold, 4, []int{5}, 0}, {bad, 6, []int{6}, 0}, {lost,
		7, []int{7}, 0}} {
		n := 0
		for _, x := range v.Acts() {
			if x.Rule != c.rule {
				continue
			}
			n++
			require.Equal(t, []int{c.sent}, x.Frames[0], "%v", c.rule.Kind)
			require.Equal(t, c.got, x.Frames[1], "%v", c.rule.Kind)
			require.Zero(t, x.Sender)
			if c.rule == hold {
				require.Equal(t, 5, x.Next[0], "what overtook it")
			}
			if c.got == nil {
				require.Equal(t, c.next, x.Next[1])
				require.EqualValues(t, 3, x.NextPSN[1])
			}
		}
		require.Equal(t, 1, n, "%v", c.rule.Kind)
	}
	for view, want := range [2]pcap.Direction{pcap.Out, pcap.In} {
		var file bytes.Buffer
		require.NoError(t, v.WritePcapng(&file, view))
		r, err := pcap.NewReader(&file)
		require.NoError(t, err)
		var f pcap.Frame
		var d pcap.Decoder
		var got []uint32
		for r.Next(&f) == nil {
			require.Equal(t, want, f.Dir)
			for _, p := range d.Decode(&f) {
				got = append(got, uint32(p.PSN))
				require.Equal(t, view == 1 && p.PSN == 6, p.ICRC == pcap.ICRCWrong, "damage is seen behind the rule")
			}
		}
		require.ErrorIs(t, r.Next(&f), io.EOF)
		require.Equal(t, [][]uint32{{1, 2, 3, 4, 5, 6, 7, 8}, {1, 3, 3, 5, 4, 6, 7, 8}}[view], got)
	}
}
