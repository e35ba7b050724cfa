package abi

import (
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// The numbers here were typed from infiniband/verbs.h of rdma-core 44 (Debian 12), those of FLUSH from rdma-core 47.

func TestSendOpcodes(t *testing.T) {
	want := map[uint32]verbs.WROpcode{
		0: verbs.WRWrite, 1: verbs.WRWriteImm, 2: verbs.WRSend, 3: verbs.WRSendImm, 4: verbs.WRRead, 5: verbs.WRCompareSwap,
		6: verbs.WRFetchAdd, 7: verbs.WRLocalInv, 8: verbs.WRBindMW, 9: verbs.WRSendInv, 14: verbs.WRFlush, 15: verbs.WRAtomicWrite,
	}
	for n := range uint32(300) {
		o, ok := SendOpcode(n)
		w, known := want[n]
		require.Equal(t, known, ok, "%d", n)
		require.Equal(t, w, o, "%d", n)
		if ok {
			back, ok := SendOpcodeNumber(o)
			require.True(t, ok)
			require.Equal(t, n, back)
		}
	}
	for _, o := range []verbs.WROpcode{verbs.WRBindMW + 1, none} {
		_, ok := SendOpcodeNumber(o)
		require.False(t, ok)
	}
	_, ok := SendOpcode(1 << 31)
	require.False(t, ok)
}

func TestCompletionOpcodes(t *testing.T) {
	want := map[verbs.WCOpcode]uint32{
		verbs.WCSend: 0, verbs.WCWrite: 1, verbs.WCRead: 2, verbs.WCCompareSwap: 3, verbs.WCFetchAdd: 4, verbs.WCBindMW: 5,
		verbs.WCLocalInv: 6, verbs.WCFlush: 8, verbs.WCAtomicWrite: 9, verbs.WCRecv: 128, verbs.WCRecvWriteImm: 129,
	}
	for o := range 256 {
		n, ok := CompletionOpcode(verbs.WCOpcode(o))
		w, known := want[verbs.WCOpcode(o)]
		require.Equal(t, known, ok, "%d", o)
		require.Equal(t, w, n, "%d", o)
	}
}

func TestEvents(t *testing.T) {
	for e, want := range map[verbs.EventType]uint32{
		verbs.EventCQError: 0, verbs.EventQPFatal: 1, verbs.EventQPRequestError: 2, verbs.EventQPAccessError: 3,
		verbs.EventCommEstablished: 4, verbs.EventSQDrained: 5, verbs.EventPortActive: 9, verbs.EventPortError: 10,
		verbs.EventSRQError: 14, verbs.EventSRQLimitReached: 15, verbs.EventLastWQEReached: 16,
	} {
		n, ok := AsyncEvent(e)
		require.True(t, ok)
		require.Equal(t, want, n)
	}
	_, ok := AsyncEvent(verbs.EventPortMTU)
	require.False(t, ok)
}

func TestTypes(t *testing.T) {
	want := map[uint32]ib.Transport{2: ib.RC, 3: ib.UC, 4: ib.UD}
	for n := range uint32(256) {
		q, ok := QPType(n)
		w, known := want[n]
		require.Equal(t, known, ok)
		require.Equal(t, w, q)
		if ok {
			back, ok := QPTypeNumber(q)
			require.True(t, ok)
			require.Equal(t, n, back)
		}
	}
	_, ok := QPTypeNumber(ib.TransportCNP)
	require.False(t, ok)
	windows := map[uint32]verbs.WindowType{1: verbs.WindowType1, 2: verbs.WindowType2B}
	for n := range uint32(4) {
		w, ok := WindowType(n)
		require.Equal(t, windows[n], w)
		require.Equal(t, n == 1 || n == 2, ok)
	}
}

// Types of package verbs that a binding converts as they are.
func TestSameNumbers(t *testing.T) {
	same := func(what string, got, want any) {
		t.Helper()
		require.EqualValues(t, want, got, what)
	}
	// ibv_qp_state
	for n, s := range []verbs.QPState{verbs.StateReset, verbs.StateInit, verbs.StateRTR, verbs.StateRTS, verbs.StateSQD, verbs.StateSQE, verbs.StateErr} {
		same("state", s, n)
	}
	// ibv_qp_attr_mask
	for bit, m := range map[int]verbs.AttrMask{
		0: verbs.AttrState, 1: verbs.AttrCurState, 2: verbs.AttrEnSQDNotify, 3: verbs.AttrAccess, 4: verbs.AttrPKeyIndex, 5: verbs.AttrPort,
		6: verbs.AttrQKey, 7: verbs.AttrAV, 8: verbs.AttrPathMTU, 9: verbs.AttrTimeout, 10: verbs.AttrRetryCnt, 11: verbs.AttrRNRRetry,
		12: verbs.AttrRQPSN, 13: verbs.AttrMaxRdAtomic, 15: verbs.AttrMinRNRTimer, 16: verbs.AttrSQPSN, 17: verbs.AttrMaxDestRdAtomic,
		20: verbs.AttrDestQPN,
	} {
		same("mask", m, 1<<bit)
	}
	// ibv_access_flags
	for bit, a := range map[int]verbs.Access{
		0: verbs.LocalWrite, 1: verbs.RemoteWrite, 2: verbs.RemoteRead, 3: verbs.RemoteAtomic, 4: verbs.MWBind, 5: verbs.ZeroBased,
		8: verbs.FlushGlobal, 9: verbs.FlushPersistent,
	} {
		same("access", a, 1<<bit)
	}
	// ibv_send_flags
	for bit, f := range map[int]verbs.SendFlags{0: verbs.SendFence, 1: verbs.SendSignaled, 2: verbs.SendSolicited, 3: verbs.SendInline} {
		same("send flags", f, 1<<bit)
	}
	// ibv_wc_flags
	for bit, f := range map[int]verbs.WCFlags{0: verbs.WCWithGRH, 1: verbs.WCWithImm, 3: verbs.WCWithInv} {
		same("completion flags", f, 1<<bit)
	}
	// ibv_wc_status
	for n, s := range map[int]verbs.WCStatus{
		0: verbs.WCSuccess, 1: verbs.WCLocalLenErr, 2: verbs.WCLocalQPOpErr, 4: verbs.WCLocalProtErr, 5: verbs.WCFlushErr, 6: verbs.WCMWBindErr,
		7: verbs.WCBadRespErr, 8: verbs.WCLocalAccessErr, 9: verbs.WCRemoteInvReqErr, 10: verbs.WCRemoteAccessErr, 11: verbs.WCRemoteOpErr,
		12: verbs.WCRetryExcErr, 13: verbs.WCRNRRetryExcErr,
	} {
		same("status", s, n)
	}
	// ibv_mtu
	for n, m := range map[int]ib.MTU{1: ib.MTU256, 2: ib.MTU512, 3: ib.MTU1024, 4: ib.MTU2048, 5: ib.MTU4096} {
		same("MTU", m, n)
	}
}

func TestNoAllocs(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = SendOpcode(3)
		_, _ = CompletionOpcode(verbs.WCRecv)
		_, _ = AsyncEvent(verbs.EventCQError)
	}))
}
