package transport

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

func TestUCSend(t *testing.T) {
	l := newLoop(t, loopOptions{typ: ib.UC, psn: 0xFFFFFF})
	fill(l.a.data[:5000], 1)
	require.NoError(t, l.b.qp.PostRecv(&RecvWR{ID: 5, SGList: []SGE{l.b.at(0, 5000)}}))
	require.NoError(t, l.a.qp.PostSend(l.now,
		&SendWR{ID: 1, Opcode: WRSendImm, Imm: 77, Flags: SendSignaled, SGList: []SGE{l.a.at(0, 5000)}}))
	require.NoError(t, l.a.qp.PostSend(l.now, &SendWR{
		ID: 2, Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{l.a.at(0, 3000)},
		RemoteAddr: l.b.region.IOVA() + 8192, RKey: l.b.region.RKey(),
	}))
	l.run()
	require.Equal(t, []WC{
		{ID: 1, Opcode: WCSend, QPN: l.a.qp.Number(), ByteLen: 5000},
		{ID: 2, Opcode: WCWrite, QPN: l.a.qp.Number(), ByteLen: 3000},
	}, completions(l.a.scq))
	wcs := completions(l.b.rcq)
	require.Len(t, wcs, 1)
	require.EqualValues(t, 77, wcs[0].Imm)
	require.Equal(t, l.a.data[:5000], l.b.data[:5000])
	require.Equal(t, l.a.data[:3000], l.b.data[8192:][:3000])
	require.Equal(t, ib.PSN(0xFFFFFF).Add(8), l.a.qp.sq.nextPSN())
	require.Zero(t, l.b.e.Counters().DropUCGap)
}

func TestUDSend(t *testing.T) {
	l := newLoop(t, loopOptions{typ: ib.UD})
	ah, err := l.a.e.CreateAH(l.a.pd, AddressVector{DGID: ib.GIDFromAddr(l.b.addr)})
	require.NoError(t, err)
	fill(l.a.data[:4096], 1)
	for i, c := range []struct {
		n    int
		qkey ib.QKey
		op   WROpcode
	}{{0, 0x1234, WRSend}, {1, 0x80000000, WRSendImm}, {4096, 0x1234, WRSend}} {
		require.NoError(t, l.b.qp.PostRecv(&RecvWR{SGList: []SGE{l.b.at(0, 5000)}}))
		require.NoError(t, l.a.qp.PostSend(l.now, &SendWR{
			ID: uint64(i), Opcode: c.op, Flags: SendSignaled, SGList: []SGE{l.a.at(0, c.n)}, Imm: 9,
			AH: ah, RemoteQPN: l.b.qp.Number(), RemoteQKey: c.qkey,
		}))
		l.run()
		wcs := completions(l.b.rcq)
		require.Len(t, wcs, 1, i)
		require.Equal(t, l.a.qp.Number(), wcs[0].SrcQP)
		require.EqualValues(t, ib.GRHBytes+c.n, wcs[0].ByteLen)
		require.Equal(t, l.a.data[:c.n], l.b.data[ib.GRHBytes:][:c.n])
		require.Len(t, completions(l.a.scq), 1)
	}
	// eRPC sends to queue pair 0, which nobody has, to see what it sent before complete.
	require.NoError(t, l.a.qp.PostSend(l.now, &SendWR{ID: 9, Flags: SendSignaled, SGList: []SGE{l.a.at(0, 1)}, AH: ah}))
	l.run()
	require.Equal(t, []WC{{ID: 9, Opcode: WCSend, QPN: l.a.qp.Number(), ByteLen: 1}}, completions(l.a.scq))
	require.EqualValues(t, 1, l.b.e.Counters().DropNoQP)
}

// A local error stops the send queue alone: SQE. Modify to RTS revives it.
func TestSendErrorLeadsToSQE(t *testing.T) {
	for _, typ := range []ib.Transport{ib.UC, ib.UD} {
		l := newLoop(t, loopOptions{typ: typ})
		wr := SendWR{Flags: SendSignaled, SGList: []SGE{l.a.at(0, 8)}, RemoteQPN: 99, RemoteAddr: 1}
		wr.AH, _ = l.a.e.CreateAH(l.a.pd, AddressVector{DGID: ib.GIDFromAddr(l.b.addr)})
		post := func(id uint64, key ib.LKey) {
			wr.ID, wr.SGList[0].LKey = id, key
			require.NoError(t, l.a.qp.PostSend(l.now, &wr))
		}
		post(1, l.a.region.LKey())
		post(2, 1)
		post(3, l.a.region.LKey())
		require.Equal(t, 1, l.carry(l.a, l.b))
		status := func() (s []WCStatus) {
			for _, wc := range completions(l.a.scq) {
				s = append(s, wc.Status)
			}
			return s
		}
		require.Equal(t, []WCStatus{WCSuccess, WCLocalProtErr, WCFlushErr}, status())
		require.Equal(t, StateSQE, l.a.qp.State())
		post(4, l.a.region.LKey())
		require.Equal(t, []WCStatus{WCFlushErr}, status())
		require.NoError(t, l.a.qp.Modify(l.now, QPAttr{State: StateRTS}, AttrState))
		post(5, l.a.region.LKey())
		require.Equal(t, 1, l.carry(l.a, l.b))
		require.Equal(t, []WCStatus{WCSuccess}, status())
	}
}

func TestUCDrain(t *testing.T) {
	l := newLoop(t, loopOptions{typ: ib.UC, mtu: ib.MTU256})
	wr := SendWR{Flags: SendSignaled, SGList: []SGE{l.a.at(0, 1000)}}
	for range 2 {
		require.NoError(t, l.a.qp.PostSend(l.now, &wr))
	}
	require.Equal(t, 2, l.a.e.PollTransmit(l.now, l.batch[:2]))
	require.NoError(t, l.a.qp.Modify(l.now, QPAttr{State: StateSQD, EnSQDAsyncNotify: true}, AttrState|AttrEnSQDNotify))
	require.Equal(t, 2, l.carry(l.a, l.b))
	require.Len(t, completions(l.a.scq), 1)
	ev, ok := l.a.e.PollEvent()
	require.True(t, ok)
	require.Equal(t, EventSQDrained, ev.Type)
	require.NoError(t, l.a.qp.Modify(l.now, QPAttr{State: StateRTS}, AttrState))
	require.Equal(t, 4, l.carry(l.a, l.b))
}
