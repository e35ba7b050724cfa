package strict_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/analyse/strict"
	"github.com/goroce/goroce/roce/pcap"
)

// The options of a conversation that a test has written: nothing is missing.
var all = strict.Options{Complete: true, Lossless: true}

const (
	sendFirst, sendMiddle, sendLast, sendOnly = ib.RCSendFirst, ib.RCSendMiddle, ib.RCSendLast, ib.RCSendOnly
	writeFirst, writeLast, writeOnly          = ib.RCWriteFirst, ib.RCWriteLast, ib.RCWriteOnly
	read, fetchAdd                            = ib.RCReadRequest, ib.RCFetchAdd
)

func length(n uint32) func(*pcap.Packet) { return func(p *pcap.Packet) { p.RETH.Len = n } }
func address(a uint64) func(*pcap.Packet) {
	return func(p *pcap.Packet) { p.RETH.VA, p.Atomic.VA = a, a }
}

// cm is a message of the communication manager, from A or B.
func (w *wire) cm(from int, h mad.Header, put func(b *mad.Data) error, edit ...func(*pcap.Packet)) *wire {
	var b [mad.Bytes]byte
	if err := put(h.Put(&b)); err != nil {
		panic(err)
	}
	pk := bth(ib.UDSendOnly, 0)
	pk.DestQP, pk.DETH, pk.Payload = ib.QPNGSI, ib.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QPNGSI}, b[:]
	return w.put(from, pk, 0, edit...)
}

// connect is REQ, REP and RTU; A's first PSN is 100, B's 200.
func (w *wire) connect(depth uint8, edit ...func(q *mad.REQ)) *wire {
	q := mad.REQ{LocalCommID: 1, QPN: qpnA, StartingPSN: 200, MTU: ib.MTU1024, PKey: ib.PKeyDefault,
		InitiatorDepth: depth, ResponderResources: depth}
	q.Primary.AckTimeout, q.Primary.FlowLabel = 14, 0x12345
	for _, e := range edit {
		e(&q)
	}
	r := mad.REP{LocalCommID: 2, RemoteCommID: 1, QPN: qpnB, StartingPSN: 100, InitiatorDepth: depth,
		ResponderResources: depth}
	u := mad.RTU{LocalCommID: 1, RemoteCommID: 2}
	return w.cm(0, mad.CMHeader(mad.AttrREQ, 5), q.Put).cm(1, mad.CMHeader(mad.AttrREP, 5), r.Put).cm(0,
		mad.CMHeader(mad.AttrRTU, 5), u.Put)
}

// Each rule has a conversation that breaks it, and it alone, and one as like it as can be that
// breaks none: no rule that cannot fire, and none that fires at what is right.
func TestRules(t *testing.T) {
	is := func(edit func(p *pcap.Packet)) func(*pcap.Packet) { return edit }
	ce := is(func(p *pcap.Packet) { p.TrafficClass = 3 })
	type play = func(w *wire)
	cases := []struct {
		rule       strict.Rule
		wrong      play
		right      play
		possibly   bool // something that no packet shows would excuse it
		besides    string
		rightBreak string // a rule of the other end that the right one breaks, too
	}{
		{rule: strict.RuleOpcode, wrong: func(w *wire) {
			w.spoil = func(p *pcap.Packet, b []byte) []byte { b[0] = 0x1f; return b }
			w.ask(sendOnly, 0, 8)
		}, right: func(w *wire) {
			w.spoil = func(p *pcap.Packet, b []byte) []byte { b[0] = 0xc0; return b } // a vendor's
			w.ask(sendOnly, 0, 8)
		}, besides: "unanswered"},
		{rule: strict.RuleReserved,
			wrong: func(w *wire) { w.ask(sendOnly, 0, 8, is(func(p *pcap.Packet) { p.Resv7 = 1 })) },
			right: func(w *wire) { w.ask(sendOnly, 0, 8) }},
		{rule: strict.RulePad, wrong: func(w *wire) {
			w.spoil = func(p *pcap.Packet, b []byte) []byte { b[len(b)-ib.ICRCBytes-1] = 1; return b }
			w.ask(sendOnly, 0, 7)
		}, right: func(w *wire) {
			w.spoil = func(p *pcap.Packet, b []byte) []byte { b[len(b)-ib.ICRCBytes-2] = 1; return b } // of the payload
			w.ask(sendOnly, 0, 7)
		}},
		{rule: strict.RuleLength, wrong: func(w *wire) { w.ask(sendFirst, 0, 128) },
			right: func(w *wire) { w.ask(sendFirst, 0, 256) }},
		{rule: strict.RuleLength,
			wrong: func(w *wire) { w.ask(writeFirst, 0, 1024, length(1500)).ask(writeLast, 1, 475) },
			right: func(w *wire) { w.ask(writeFirst, 0, 1024, length(1500)).ask(writeLast, 1, 476) }},
		{rule: strict.RuleAckReq,
			wrong: func(w *wire) { w.ask(sendOnly, 0, 8).ack(0, 1, is(func(p *pcap.Packet) { p.AckReq = true })) },
			right: func(w *wire) { w.ask(sendOnly, 0, 8).ack(0, 1) }},
		{rule: strict.RuleSolicited,
			wrong: func(w *wire) { w.ask(sendFirst, 0, 1024, is(func(p *pcap.Packet) { p.Solicited = true })) },
			right: func(w *wire) { w.ask(sendOnly, 0, 8, is(func(p *pcap.Packet) { p.Solicited = true })) }},
		{rule: strict.RuleMigReq,
			wrong: func(w *wire) { w.connect(1).ask(sendOnly, 100, 8, is(func(p *pcap.Packet) { p.MigReq = false })) },
			right: func(w *wire) { w.connect(1).ask(sendOnly, 100, 8) }},
		{rule: strict.RulePKey,
			wrong: func(w *wire) { w.connect(1).ask(sendOnly, 100, 8, is(func(p *pcap.Packet) { p.PKey = 0x8001 })) },
			right: func(w *wire) { w.ask(sendOnly, 100, 8, is(func(p *pcap.Packet) { p.PKey = 0x8001 })) }},
		{rule: strict.RuleSyndrome, wrong: func(w *wire) { w.ask(sendOnly, 0, 8).nak(0x65, 0, 0) },
			right: func(w *wire) { w.ask(sendOnly, 0, 8).nak(ib.NAKRemoteOperation, 0, 0) }},
		{rule: strict.RuleICRC,
			wrong: func(w *wire) { w.ask(ib.RCFlush, 0, 8, is(func(p *pcap.Packet) { p.ICRC = pcap.ICRCRightRxe })) },
			right: func(w *wire) { w.ask(ib.RCFlush, 0, 8) }},
		{rule: strict.RuleDF,
			wrong: func(w *wire) { w.ask(sendOnly, 0, 8, is(func(p *pcap.Packet) { p.NoDF = true })) },
			right: func(w *wire) { w.ask(sendOnly, 0, 8) }},
		{rule: strict.RuleCNP, wrong: func(w *wire) { w.put(1, bth(ib.CNP, 0), 0) },
			right: func(w *wire) { w.put(1, ib.NewCNP(qpnA), 0) }},
		{rule: strict.RuleGSI,
			wrong: func(w *wire) { w.ask(ib.UDSendOnly, 0, 256, is(func(p *pcap.Packet) { p.DestQP = ib.QPNGSI })) },
			right: func(w *wire) {
				w.ask(ib.UDSendOnly, 0, 256, is(func(p *pcap.Packet) { p.DestQP, p.DETH.QKey = ib.QPNGSI, ib.QKeyGSI }))
			}},
		{rule: strict.RuleQKey, possibly: true,
			wrong: func(w *wire) { w.ask(ib.UDSendOnly, 0, 8, is(func(p *pcap.Packet) { p.DETH.QKey = 1 << 31 })) },
			right: func(w *wire) { w.ask(ib.UDSendOnly, 0, 8) }},
		{rule: strict.RuleAtomic, wrong: func(w *wire) { w.ask(fetchAdd, 0, 0, address(12)) },
			right: func(w *wire) { w.ask(fetchAdd, 0, 0, address(16)) }},
		{rule: strict.RuleFlowLabel, possibly: true,
			wrong: func(w *wire) { w.v6 = true; w.connect(1).ask(sendOnly, 100, 8) },
			right: func(w *wire) { w.v6, w.label = true, 0x12345; w.connect(1).ask(sendOnly, 100, 8) }},
		{rule: strict.RulePSNOrder, wrong: func(w *wire) { w.ask(sendOnly, 0, 8).ask(sendOnly, 2, 8) },
			right: func(w *wire) { w.ask(sendOnly, 0, 8).ask(sendOnly, 1, 8) }},
		{rule: strict.RulePSNOrder, wrong: func(w *wire) { w.ask(read, 0, 1024).ask(sendOnly, 5, 8) },
			right: func(w *wire) { w.ask(read, 0, 1024).ask(sendOnly, 4, 8) }},
		{rule: strict.RuleMessageOrder, wrong: func(w *wire) { w.ask(sendFirst, 0, 1024).ask(sendOnly, 1, 8) },
			right: func(w *wire) { w.ask(sendFirst, 0, 1024).ask(sendLast, 1, 8) }},
		{rule: strict.RuleMessageOrder, wrong: func(w *wire) { w.ask(sendOnly, 0, 8).ask(sendMiddle, 1, 1024) },
			right: func(w *wire) { w.ask(sendFirst, 0, 1024).ask(sendMiddle, 1, 1024) }},
		{rule: strict.RuleOverlap, wrong: func(w *wire) {
			w.ask(sendFirst, 0, 1024).ask(sendLast, 1, 8).ask(read, 2, 4096).ask(sendOnly, 3, 8)
		},
			right: func(w *wire) {
				w.ask(sendFirst, 0, 1024).ask(sendLast, 1, 8).ask(read, 2, 4096).ask(sendOnly, 6, 8)
			}},
		{rule: strict.RuleAgain, wrong: func(w *wire) { w.ask(writeOnly, 0, 8).ask(writeOnly, 0, 8, address(0)) },
			right: func(w *wire) { w.ask(writeOnly, 0, 8).ask(writeOnly, 0, 8) }},
		{rule: strict.RuleAgain, wrong: func(w *wire) {
			w.ask(sendFirst, 0, 1024).ask(sendLast, 1, 8).ask(read, 2, 4096).ask(read, 3, 3072)
		}, right: func(w *wire) {
			w.ask(sendFirst, 0, 1024).ask(sendLast, 1, 8).ask(read, 2, 4096).ask(read, 3, 3072, address(0x10000+1024))
		}},
		{rule: strict.RuleAgain, wrong: func(w *wire) { w.ask(writeOnly, 0, 8).ask(read, 0, 8) },
			right: func(w *wire) { w.ask(read, 0, 8).ask(read, 0, 8) }},
		{rule: strict.RuleUCAgain, wrong: func(w *wire) {
			w.ask(ib.UCSendOnly, 0, 8).ask(ib.UCSendOnly, 0, 8, is(func(p *pcap.Packet) { p.Ident = 1 }))
		},
			right: func(w *wire) { w.ask(ib.UCSendOnly, 0, 8).ask(ib.UCSendOnly, 1, 8) }},
		{rule: strict.RuleTries, wrong: func(w *wire) {
			for range 12 {
				w.ask(writeOnly, 0, 8)
			}
		}, right: func(w *wire) {
			for range 8 {
				w.ask(writeOnly, 0, 8)
			}
		}},
		{rule: strict.RuleDepth, wrong: func(w *wire) { w.connect(1).ask(read, 100, 8).ask(read, 101, 8) },
			right: func(w *wire) {
				w.connect(1).ask(read, 100, 8).data(ib.RCReadRespOnly, 100, 1, 8).ask(read, 101, 8)
			}},
		{rule: strict.RuleCredits, wrong: func(w *wire) {
			w.dirA = pcap.Out
			w.ask(sendOnly, 0, 8).nak(0, 0, 1).ask(sendOnly, 1, 8).ask(sendOnly, 2, 8)
		},
			right: func(w *wire) {
				w.dirA = pcap.Out
				w.ask(sendOnly, 0, 8).nak(0, 0, 1).ask(sendOnly, 1, 8).ask(writeOnly, 2, 8)
			}},
		{rule: strict.RuleRNRWait, wrong: func(w *wire) {
			w.dirA = pcap.Out
			w.ask(sendOnly, 0, 8).nak(ib.RNRNAK(12), 0, 0).ask(sendOnly, 0, 8)
		},
			right: func(w *wire) {
				w.dirA = pcap.Out
				w.ask(sendOnly, 0, 8).nak(ib.RNRNAK(12), 0, 0).wait(640_000).ask(sendOnly, 0, 8)
			}},
		{rule: strict.RuleRNRWait, wrong: func(w *wire) {
			w.ask(sendOnly, 0, 8).nak(ib.RNRNAK(12), 0, 0).bAsk(50).bAck(50, 1).ask(sendOnly, 1, 8)
		},
			right: func(w *wire) {
				w.ask(sendOnly, 0, 8).bAsk(50).nak(ib.RNRNAK(12), 0, 0).bAck(50, 1).ask(sendOnly, 1, 8)
			}},
		{rule: strict.RuleGoBack, wrong: func(w *wire) {
			w.ask(sendOnly, 0, 8).ask(sendOnly, 1, 8).nak(ib.NAKSequence, 0, 0).bAsk(50).bAck(50, 1).ask(sendOnly, 2, 8)
		}, right: func(w *wire) {
			w.ask(sendOnly, 0, 8).ask(sendOnly, 1, 8).nak(ib.NAKSequence, 0, 0).bAsk(50).bAck(50, 1).
				ask(sendOnly, 0, 8).ask(sendOnly, 1, 8).ask(sendOnly, 2, 8)
		}},
		{rule: strict.RuleNoRetry, wrong: func(w *wire) {
			w.connect(1).ask(writeOnly, 100, 8)
			for i := range 5 {
				w.wait(2e9).ask(writeOnly, 101+i, 8)
			}
		}, right: func(w *wire) {
			w.connect(1).ask(writeOnly, 100, 8).ack(100, 1)
			for i := range 5 {
				w.wait(2e9).ask(writeOnly, 101+i, 8).ack(101+i, 2+i)
			}
		}},
		{rule: strict.RuleAfterFatal, wrong: func(w *wire) {
			w.ask(sendOnly, 0, 8).bAsk(50).bAck(50, 1).nak(ib.NAKRemoteOperation, 0, 0).bAsk(51)
		},
			right: func(w *wire) {
				w.ask(sendOnly, 0, 8).bAsk(50).bAck(50, 1).bAsk(51).nak(ib.NAKRemoteOperation, 0, 0)
			}},
		{rule: strict.RuleAfterFatal, wrong: func(w *wire) {
			w.ask(sendOnly, 0, 8).nak(ib.NAKRemoteOperation, 0, 0).wait(2e9).ask(sendOnly, 1, 8)
		},
			right: func(w *wire) { w.ask(sendOnly, 0, 8).nak(ib.NAKRemoteOperation, 0, 0).ask(sendOnly, 1, 8) }},
		{rule: strict.RuleAckUnsent, wrong: func(w *wire) { w.ask(sendOnly, 0, 8).ack(0, 1).ack(1, 2) },
			right: func(w *wire) { w.ask(sendOnly, 0, 8).ack(0, 1).ask(sendOnly, 1, 8).ack(1, 2) }},
		{rule: strict.RuleAckBack,
			wrong: func(w *wire) { w.ask(sendOnly, 0, 8).ask(sendOnly, 1, 8).ack(1, 2).ack(0, 2) },
			right: func(w *wire) { w.ask(sendOnly, 0, 8).ask(sendOnly, 1, 8).ack(1, 2).ask(sendOnly, 0, 8).ack(0, 2) }},
		{rule: strict.RuleAckKind, wrong: func(w *wire) { w.ask(read, 0, 8).ack(0, 1) },
			right: func(w *wire) { w.ask(read, 0, 8).data(ib.RCReadRespOnly, 0, 1, 8).ack(0, 1) }},
		{rule: strict.RuleAckPast, wrong: func(w *wire) { w.ask(read, 0, 8).ask(sendOnly, 1, 8).ack(1, 2) },
			right: func(w *wire) { w.ask(read, 0, 8).ask(sendOnly, 1, 8).data(ib.RCReadRespOnly, 0, 1, 8).ack(1, 2) }},
		{rule: strict.RuleRefuse, besides: "length", wrong: func(w *wire) {
			w.ask(read, 0, 8, is(func(p *pcap.Packet) { p.Payload = make([]byte, 16) })).data(
				ib.RCReadRespOnly, 0, 1, 8)
		},
			right: func(w *wire) {
				w.ask(read, 0, 8, is(func(p *pcap.Packet) { p.Payload = make([]byte, 16) })).nak(
					ib.NAKInvalidRequest, 0, 0)
			}, rightBreak: "length"},
		{rule: strict.RuleContradict,
			wrong: func(w *wire) { w.ask(sendOnly, 0, 8).ack(0, 1).nak(ib.NAKRemoteOperation, 0, 1) },
			right: func(w *wire) {
				w.ask(sendOnly, 0, 8).ack(0, 1).ask(sendOnly, 1, 8).nak(ib.NAKRemoteOperation, 1, 1)
			}},
		{rule: strict.RuleZeroLength, wrong: func(w *wire) { w.ask(read, 0, 0).nak(ib.NAKRemoteAccess, 0, 0) },
			right: func(w *wire) { w.ask(read, 0, 1).nak(ib.NAKRemoteAccess, 0, 0) }},
		{rule: strict.RuleNAKCode, besides: "length",
			wrong:      func(w *wire) { w.ask(writeFirst, 0, 1024, length(1<<31+1)).nak(ib.NAKRemoteAccess, 0, 0) },
			right:      func(w *wire) { w.ask(writeFirst, 0, 1024, length(1<<31+1)).nak(ib.NAKInvalidRequest, 0, 0) },
			rightBreak: "length"},
		{rule: strict.RuleNAKUnfounded, wrong: func(w *wire) { w.ask(sendOnly, 0, 8).nak(ib.NAKSequence, 0, 0) },
			right: func(w *wire) { w.ask(sendOnly, 0, 8).ask(sendOnly, 1, 8).nak(ib.NAKSequence, 0, 0) }},
		{rule: strict.RuleNAKAfterRNR, wrong: func(w *wire) {
			w.ask(sendOnly, 0, 8).ask(sendOnly, 1, 8).nak(ib.RNRNAK(12), 0, 0).nak(ib.NAKSequence, 0, 0)
		}, right: func(w *wire) {
			w.ask(sendOnly, 0, 8).ask(sendOnly, 1, 8).nak(ib.RNRNAK(12), 0, 0).wait(700_000).nak(ib.NAKSequence, 0, 0)
		}},
		{rule: strict.RuleRNRKind, possibly: true, wrong: func(w *wire) { w.ask(read, 0, 8).nak(ib.RNRNAK(12), 0, 0) },
			right: func(w *wire) { w.ask(ib.RCWriteOnlyImm, 0, 8).nak(ib.RNRNAK(12), 0, 0) }},
		{rule: strict.RuleMSN, wrong: func(w *wire) { w.ask(sendOnly, 0, 8).ack(0, 0) },
			right: func(w *wire) { w.ask(sendOnly, 0, 8).ack(0, 1) }},
		{rule: strict.RuleMSN, wrong: func(w *wire) { w.ask(sendOnly, 0, 8).ack(0, 2) },
			right: func(w *wire) { w.ask(sendOnly, 0, 8).ask(sendOnly, 1, 8).ack(0, 2) }},
		{rule: strict.RuleResponse, wrong: func(w *wire) {
			w.ask(read, 0, 2048).data(ib.RCReadRespFirst, 0, 1, 1024).data(ib.RCReadRespLast, 1, 1, 1000)
		},
			right: func(w *wire) {
				w.ask(read, 0, 2048).data(ib.RCReadRespFirst, 0, 1, 1024).data(ib.RCReadRespLast, 1, 1, 1024)
			}},
		{rule: strict.RuleResponse, wrong: func(w *wire) { w.ask(ib.RCFlush, 0, 64).data(ib.RCReadRespOnly, 0, 1, 4) },
			right: func(w *wire) { w.ask(ib.RCFlush, 0, 64).data(ib.RCReadRespOnly, 0, 1, 0) }},
		{rule: strict.RuleStream, wrong: func(w *wire) {
			w.ask(read, 0, 2048).data(ib.RCReadRespFirst, 0, 1, 1024).data(ib.RCReadRespLast, 1, 1, 1024).
				ask(read, 1, 1024, address(0x10000+1024)).data(ib.RCReadRespLast, 1, 1, 1024)
		}, right: func(w *wire) {
			w.ask(read, 0, 2048).data(ib.RCReadRespFirst, 0, 1, 1024).data(ib.RCReadRespLast, 1, 1, 1024).
				ask(read, 1, 1024, address(0x10000+1024)).data(ib.RCReadRespOnly, 1, 1, 1024)
		}},
		{rule: strict.RuleUnanswered, wrong: func(w *wire) {
			w.ask(read, 0, 8).data(ib.RCReadRespOnly, 0, 1, 8).ask(read, 0, 8).ask(sendOnly, 1, 8).ack(1, 2)
		}, right: func(w *wire) {
			w.ask(read, 0, 8).data(ib.RCReadRespOnly, 0, 1, 8).ask(read, 0, 8).ask(sendOnly, 1, 8).
				data(ib.RCReadRespOnly, 0, 1, 8).ack(1, 2)
		}},
		{rule: strict.RuleCNPMissing, possibly: true, wrong: func(w *wire) { w.ask(sendOnly, 0, 8, ce).ack(0, 1) },
			right: func(w *wire) { w.ask(sendOnly, 0, 8, ce).ack(0, 1).put(1, ib.NewCNP(qpnA), 0) }},
		{rule: strict.RuleCMOrder, wrong: func(w *wire) {
			w.cm(1, mad.CMHeader(mad.AttrREP, 5), (&mad.REP{LocalCommID: 2, RemoteCommID: 1, QPN: qpnB}).Put)
		}, right: func(w *wire) { w.connect(1) }},
		{rule: strict.RuleCMAgain, wrong: func(w *wire) {
			w.cm(0, mad.CMHeader(mad.AttrREQ, 5), (&mad.REQ{LocalCommID: 1, QPN: qpnA}).Put).cm(0,
				mad.CMHeader(mad.AttrREQ, 5), (&mad.REQ{LocalCommID: 1, QPN: qpnB}).Put)
		}, right: func(w *wire) { w.connect(1) }},
	}
	shown := map[strict.Rule]bool{}
	for _, c := range cases {
		shown[c.rule] = true
		w := newWire()
		c.wrong(w)
		certain, perhaps := w.broken(all)
		require.NotContains(t, perhaps, ",", c.rule)
		if c.possibly {
			require.Equal(t, [2]string{"", string(c.rule)}, [2]string{certain, perhaps}, c.rule)
		} else {
			require.Contains(t, certain, string(c.rule), "%s: perhaps %s", c.rule, perhaps)
			if c.besides == "" {
				require.Equal(t, [2]string{string(c.rule), ""}, [2]string{certain, perhaps})
			}
		}
		w = newWire()
		c.right(w)
		certain, perhaps = w.broken(all)
		require.Equal(t, [2]string{c.rightBreak, ""}, [2]string{certain, perhaps}, c.rule)
	}
	for _, r := range strict.Rules() {
		require.True(t, shown[r.Rule], "%s has no case", r.Rule)
		require.NotEmpty(t, r.Source)
		require.NotEmpty(t, r.Text)
	}
	require.Len(t, shown, len(strict.Rules()))
}

// Requests that do not fit each other may be those of two connections, one after the other, with
// the same numbers: if there is time enough between them, and whichever of the two has the higher
// PSN.
func TestReused(t *testing.T) {
	for _, wait := range []int64{0, 200e6} {
		up, down := newWire(), newWire()
		up.ask(sendFirst, 0, 1024).wait(wait).ask(sendOnly, 1, 8)
		down.ask(sendOnly, 1, 8).wait(wait).ask(sendFirst, 0, 1024)
		for _, w := range []*wire{up, down} {
			found := check(strict.Options{}, w.all).Violations
			require.Len(t, found, 1)
			require.Equal(t, strict.RuleMessageOrder, found[0].Rule)
			require.Equal(t, wait == 0, found[0].Certain, "%+v", found[0])
		}
	}
}

// Where the capture lacks what would tell the path MTU, a READ begins with FIRST or ONLY all the
// same, and what comes later may be the end of any that is long enough, also where another READ
// begins.
func TestUnknownMTU(t *testing.T) {
	w := newWire()
	w.ask(read, 0, 260).data(ib.RCReadRespLast, 0, 1, 4)
	found := check(strict.Options{}, w.all).Violations
	require.Len(t, found, 1)
	require.Equal(t, strict.RuleResponse, found[0].Rule)
	require.Equal(t, "FIRST or ONLY, at the beginning of the READ in packet 1", found[0].Allowed)

	w = newWire()
	w.ask(read, 0, 260).ask(read, 1, 4, address(0x10000+256)).data(ib.RCReadRespLast, 1, 1, 4)
	require.Zero(t, check(strict.Options{}, w.all).Broken[strict.RuleResponse])
}

// A responder may bound how often it sends a READ again, and go on without an answer: 16 times are
// asked of it, whichever part is asked for.
func TestReadTooOften(t *testing.T) {
	const n = 4
	for _, parts := range []bool{false, true} {
		for _, often := range []int{15, 16, 17} {
			w := newWire()
			w.mtu = 256
			send := func(from int) {
				for i := from; i < n; i++ {
					pos := ib.RCReadRespMiddle
					switch {
					case i == n-1 && i == from:
						pos = ib.RCReadRespOnly
					case i == n-1:
						pos = ib.RCReadRespLast
					case i == from:
						pos = ib.RCReadRespFirst
					}
					w.data(pos, i, 1, 256)
				}
			}
			ask := func(from int) { w.ask(read, from, (n-from)*256, address(0x10000+uint64(from)*256)) }
			ask(0)
			send(0)
			for i := range often {
				from := 0
				if parts && i%2 == 0 { // the last one, which takes a quarter of it
					from = n - 1
				}
				ask(from)
				if i < often-1 {
					send(from)
				}
			}
			packets := often * n
			if parts {
				packets = (often+1)/2 + often/2*n
			}
			w.ask(writeOnly, n, 8).ack(n, 2)
			certain, perhaps := w.broken(strict.Options{Complete: true, Lossless: true})
			want := string(strict.RuleUnanswered)
			if packets > 16*n {
				want = ""
			}
			require.Equal(t, want, certain, "%d packets again", packets)
			require.Empty(t, perhaps)
		}
	}
}
