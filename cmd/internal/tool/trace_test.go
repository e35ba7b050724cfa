package tool

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// A device with --trace leaves a file that the analyser reads, whole.
func TestTrace(t *testing.T) {
	net := sim.New(sim.Config{})
	path := filepath.Join(t.TempDir(), "trace")
	d := &DeviceOptions{Trace: path}
	var cfg verbs.Config
	open, err := d.traced(OpenDevice, &cfg)
	require.NoError(t, err)
	link := func(a string) verbs.Config {
		c := cfg
		l, err := net.Link(netip.MustParseAddr(a))
		require.NoError(t, err)
		c.Link = l
		return c
	}
	a, release, err := open(link("192.0.2.1"))
	require.NoError(t, err)
	cfg.WrapLink = nil
	b, err := verbs.Open(link("192.0.2.2"))
	require.NoError(t, err)
	defer b.Close()
	var qps [2]*verbs.QP
	var mrs [2]*verbs.MR
	var cq *verbs.CQ
	for i, dev := range []*verbs.Device{b, a} {
		pd, err := dev.AllocPD()
		require.NoError(t, err)
		cq, err = dev.CreateCQ(16, nil)
		require.NoError(t, err)
		mrs[i], err = pd.RegisterMR(make([]byte, 4096), verbs.AccessAll, nil)
		require.NoError(t, err)
		qps[i], err = pd.CreateQP(verbs.QPInitAttr{SendCQ: cq, Type: 1})
		require.NoError(t, err)
	}
	require.NoError(t, qps[0].Connect(qps[1].LocalInfo(0), nil))
	require.NoError(t, qps[1].Connect(qps[0].LocalInfo(0), nil))
	for range 100 {
		require.NoError(t, qps[1].PostSend(&verbs.SendWR{Opcode: verbs.WRWrite, Flags: verbs.SendSignaled,
			SGList: []verbs.SGE{mrs[1].SGE(0, 4096)}, RemoteAddr: mrs[0].Addr(), RKey: mrs[0].RKey()}))
		var wc [1]verbs.WC
		_, err := cq.Wait(t.Context(), wc[:])
		require.NoError(t, err)
	}
	require.NoError(t, release())
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	r, _, err := analyse.Read(f, analyse.Options{})
	require.NoError(t, err)
	require.Equal(t, 200, r.Packets)
	require.Empty(t, r.Findings)
	require.Equal(t, 100, r.Connections[0].Ways[0].Operations["WRITE"].Completed)
}
