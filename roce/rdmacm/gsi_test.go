package rdmacm_test

import (
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// Gets and Sets of classes that nobody serves come back with a status, to whichever
// queue pair asked, as from rdma_rxe; nothing else does.
func TestGSIAnswersUnserved(t *testing.T) {
	ctx := rocetest.Context(t)
	ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), 2)
	rocetest.PeerOn(t, ds[1]).Listen(t, rdmacm.PortSpaceTCP, 3)
	c := rocetest.NewEnd(t, ds[0], 4096, verbs.QPInitAttr{Type: verbs.UD})
	require.NoError(t, c.QP.Activate(0x80010000))
	ah, err := c.PD.CreateAHTo(ib.GIDFromAddr(ds[1].Addrs()[0]))
	require.NoError(t, err)
	const recvAt = 1024
	tid := mad.TID(0)
	ask := func(h mad.Header) {
		var b [mad.Bytes]byte
		tid++
		h.BaseVersion, h.TID = 1, tid
		h.Put(&b)
		copy(c.Buf, b[:])
		require.NoError(t, c.QP.PostRecv(&verbs.RecvWR{SGList: []verbs.SGE{c.MR.SGE(recvAt, 512)}}))
		require.NoError(t, c.QP.PostSend(&verbs.SendWR{
			Opcode: verbs.WRSend, SGList: []verbs.SGE{c.MR.SGE(0, len(b))}, AH: ah, RemoteQPN: 1,
			RemoteQKey: 0x80010000,
		}))
	}
	answered := func(status mad.Status) {
		var wc [1]verbs.WC
		for wc[0].Opcode&verbs.WCRecv == 0 {
			_, err := c.CQ.Wait(ctx, wc[:])
			require.NoError(t, err)
			require.Equal(t, verbs.WCSuccess, wc[0].Status)
		}
		var h mad.Header
		_, bad := mad.Parse(c.Buf[recvAt+40:recvAt+int(wc[0].ByteLen)], &h)
		require.Equal(t, mad.OK, bad)
		require.Equal(t, mad.MethodGetResp, h.Method)
		require.Equal(t, status, h.Status)
		require.Equal(t, tid, h.TID, "the last that was asked: those before have no answer")
	}
	pma := mad.Header{Class: mad.ClassPerf, ClassVersion: 1, Method: mad.MethodGet, Attribute: mad.AttrClassPortInfo}
	ask(pma)
	answered(mad.StatusBadMethodAttr)
	for _, silent := range []mad.Header{
		{Class: mad.ClassPerf, ClassVersion: 1, Method: mad.MethodSend},
		{Class: mad.ClassPerf, ClassVersion: 1, Method: mad.MethodGetResp},
		{Class: 0x01, ClassVersion: 1, Method: mad.MethodGet},
		{Class: mad.ClassCM, ClassVersion: 2, Method: mad.MethodSend, Attribute: mad.AttrDREQ}, // not from QP 1
	} {
		ask(silent)
		ask(pma)
		answered(mad.StatusBadMethodAttr)
	}
}
