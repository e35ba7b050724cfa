package roce

import (
	"testing"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

// Gets and Sets of classes that nobody serves come back with a status, to whichever
// queue pair asked, as from rdma_rxe; nothing else does.
func TestGSIAnswersUnserved(t *testing.T) {
	ctx := testContext(t)
	ds := simDevices(t, sim.New(sim.Config{Seed: 1}), 2)
	peerOn(t, ds[1]).listen(t, PortSpaceTCP, 3)
	c := newEnd(t, ds[0], 4096, QPInitAttr{Type: UD})
	require.NoError(t, c.qp.Activate(0x80010000))
	ah, err := c.pd.CreateAHTo(dgid(ds[1].addrs[0]))
	require.NoError(t, err)
	const recvAt = 1024
	tid := mad.TID(0)
	ask := func(h mad.Header) {
		var b [mad.Bytes]byte
		tid++
		h.BaseVersion, h.TID = 1, tid
		h.Put(&b)
		copy(c.buf, b[:])
		require.NoError(t, c.qp.PostRecv(&RecvWR{SGList: []SGE{c.mr.SGE(recvAt, 512)}}))
		require.NoError(t, c.qp.PostSend(&SendWR{
			Opcode: WRSend, SGList: []SGE{c.mr.SGE(0, len(b))}, AH: ah.Handle(), RemoteQPN: 1, RemoteQKey: 0x80010000,
		}))
	}
	answered := func(status mad.Status) {
		var wc [1]WC
		for wc[0].Opcode&WCRecv == 0 {
			_, err := c.cq.Wait(ctx, wc[:])
			require.NoError(t, err)
			require.Equal(t, WCSuccess, wc[0].Status)
		}
		var h mad.Header
		_, bad := mad.Parse(c.buf[recvAt+40:recvAt+int(wc[0].ByteLen)], &h)
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
