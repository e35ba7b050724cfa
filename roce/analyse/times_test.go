package analyse_test

import (
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/pcap"
	"github.com/stretchr/testify/require"
)

// A finding is at the time of its first packet, however long it took to find out.
func TestFindingTimes(t *testing.T) {
	s, err := stage.New(stage.Config{})
	require.NoError(t, err)
	warm(t, s)
	rule(s, 0, fault.Drop, psn0, ib.RCWriteOnly)
	do(t, s, s.Write(0, 64))
	s.Net.RunFor(time.Second)
	do(t, s, s.Write(0, 64))
	require.NoError(t, s.Close())
	at := map[int]int64{}
	a := analyse.New(analyse.Options{})
	require.NoError(t, s.Packets(stage.At0, func(p *pcap.Packet) {
		if len(at) == 0 {
			at[0] = p.AtNs
		}
		at[p.Frame] = p.AtNs
		a.Add(p)
	}))
	f := a.Report().Findings
	require.Len(t, f, 1)
	require.Equal(t, at[f[0].Frames[0]]-at[0], f[0].AtNs)
}
