package strict_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse/strict"
	"github.com/goroce/goroce/roce/pcap"
)

// row is a row of docs/rxe.md, with the packets of its drill, and with what comes after where the
// deviation is in what rxe goes on to do.
type row struct {
	number  int
	rules   []strict.Rule // that its packets break, by rxe
	certain bool          // for certain
	rxe     int           // which end it is: 0 asks, 1 answers
	play    func(w *wire)
	why     string // why no trace can show it
}

func rows() []row {
	mig0 := func(p *pcap.Packet) { p.MigReq = false }
	return []row{
		{number: 1, rules: []strict.Rule{strict.RuleTries}, certain: true, play: func(w *wire) {
			for range 20 {
				w.ask(writeOnly, 0, 8).wait(20e6)
			}
		}},
		{number: 2, rules: []strict.Rule{strict.RuleICRC, strict.RuleAgain}, certain: true, play: func(w *wire) {
			rxe := func(p *pcap.Packet) { p.ICRC = pcap.ICRCRightRxe }
			w.ask(ib.RCFlush, 0, 64, rxe).wait(20e6).ask(ib.RCFlush, 0, 64, rxe, address(0))
		}},
		{number: 3, rxe: 1, rules: []strict.Rule{strict.RuleAckUnsent}, certain: true, play: func(w *wire) {
			w.ask(read, 0, 8).data(ib.RCReadRespOnly, 0, 1, 8).ask(writeOnly, -1, 8).ack(-4097, 1)
		}},
		{number: 4, rxe: 1, rules: []strict.Rule{strict.RuleStream}, certain: true, play: func(w *wire) {
			w.mtu = 256
			w.ask(read, 0, 1024).data(ib.RCReadRespFirst, 0, 1, 256).data(ib.RCReadRespMiddle, 1, 0, 256).
				data(ib.RCReadRespMiddle, 2, 0, 256).data(ib.RCReadRespLast, 3, 1, 256)
			w.ask(read, 2, 512, address(0x10000+512)).data(ib.RCReadRespMiddle, 2, 0, 256)
		}},
		{number: 5, rxe: 1, rules: []strict.Rule{strict.RuleUnanswered}, certain: true, play: func(w *wire) {
			w.ask(read, 0, 512).data(ib.RCReadRespFirst, 0, 1, 256).data(ib.RCReadRespLast, 1, 1, 256).
				ask(read, 1, 256, address(0x10000+256)).data(ib.RCReadRespOnly, 1, 1, 256)
			w.ask(read, 0, 512).wait(1e9).ask(writeOnly, 2, 8).ack(2, 2)
		}},
		{number: 6, rxe: 1, rules: []strict.Rule{strict.RuleZeroLength}, certain: true, play: func(w *wire) {
			w.ask(read, 0, 0).data(ib.RCReadRespOnly, 0, 1, 0).ask(read, 0, 0).nak(ib.NAKRemoteAccess, 0, 1)
		}},
		{number: 7, why: "how long the receive is that a SEND meets is in no packet, and the code is one that other errors have"},
		{number: 8, rxe: 1, rules: []strict.Rule{strict.RuleMSN}, certain: true,
			play: func(w *wire) { w.ask(ib.RCSendOnlyInv, 0, 16).ack(0, 0) }},
		{number: 9, rxe: 1, rules: []strict.Rule{strict.RuleNAKAfterRNR}, certain: true, play: func(w *wire) {
			w.ask(sendOnly, 0, 16).nak(ib.RNRNAK(12), 0, 0).ask(writeOnly, 1, 8).nak(ib.NAKSequence, 0, 0)
		}},
		{number: 9, rules: []strict.Rule{strict.RuleRNRWait}, certain: true, play: func(w *wire) {
			w.ask(sendOnly, 0, 8).nak(ib.RNRNAK(31), 0, 0).bAsk(50).bAck(50, 1).ask(sendOnly, 1, 8)
		}},
		{number: 10, rxe: 1, rules: []strict.Rule{strict.RuleUnanswered}, certain: true, play: func(w *wire) {
			w.ask(writeOnly, 0, 8).ack(0, 1)
			w.spoil = func(p *pcap.Packet, b []byte) []byte { b[0] = 0x1f; return b }
			w.ask(writeOnly, 1, 8)
			w.spoil = nil
			w.wait(1e9).ask(writeOnly, 1, 8).ack(1, 2)
		}},
		{number: 11, why: "it is what the specification asks for"},
		{number: 12, rxe: 1, rules: []strict.Rule{strict.RuleRefuse}, certain: true, play: func(w *wire) {
			w.ask(sendFirst, 0, 256).ask(sendLast, 1, 0).ack(1, 1)
		}},
		{number: 12, rxe: 1, rules: []strict.Rule{strict.RuleRefuse}, certain: true, play: func(w *wire) {
			w.ask(sendFirst, 0, 128).ask(sendLast, 1, 8).ack(1, 1)
		}},
		{number: 13, rules: []strict.Rule{strict.RuleDepth}, certain: true, play: func(w *wire) {
			w.connect(3)
			for i := range 4 {
				w.ask(read, 100+i, 8)
			}
		}},
		{number: 14, rules: []strict.Rule{strict.RuleCredits}, certain: true, play: func(w *wire) {
			w.dirA = pcap.Out // on the machine of rxe: elsewhere they may have passed each other
			w.ask(sendOnly, 0, 8).nak(ib.ACKCredit(0), 0, 1).ask(sendOnly, 1, 8).ask(sendOnly, 2, 8)
		}},
		{number: 15, rules: []strict.Rule{strict.RuleAckReq}, certain: true, play: func(w *wire) {
			w.ask(ib.UDSendOnly, 0, 256,
				func(p *pcap.Packet) { p.DestQP, p.DETH.QKey, p.AckReq = ib.QPNGSI, ib.QKeyGSI, true })
		}},
		{number: 15, rules: []strict.Rule{strict.RuleQKey}, play: func(w *wire) {
			w.ask(ib.UDSendOnly, 0, 4, func(p *pcap.Packet) { p.DETH.QKey = 0x80000000 })
		}},
		{number: 16, rules: []strict.Rule{strict.RuleMigReq}, certain: true,
			play: func(w *wire) { w.connect(1).ask(writeOnly, 100, 8, mig0) }},
		{number: 17, rxe: 1, rules: []strict.Rule{strict.RuleCNPMissing}, play: func(w *wire) {
			w.ask(writeOnly, 0, 8, func(p *pcap.Packet) { p.TrafficClass = 3 }).ack(0, 1)
		}},
		{number: 18, why: "which range a window was bound to is in no packet"},
		{number: 19,
			why: "a packet that is dropped before it leaves is in no capture, and a queue pair that ended is silent"},
		{number: 20, why: "statuses of completions are in no packet"},
		{number: 21, why: "no packet can show it, says the row itself"},
		{number: 22, why: "the requester's program is told something else than the wire; the queue pair is silent in either case"},
		{number: 23, rules: []strict.Rule{strict.RuleGoBack}, play: func(w *wire) {
			w.ask(read, 0, 1024).data(ib.RCReadRespFirst, 0, 1, 256).data(ib.RCReadRespMiddle, 2, 0, 256).
				wait(3e9).ask(read, 1, 768, address(0x10000+256))
		}},
		{number: 24, rules: []strict.Rule{strict.RuleGoBack}, certain: true, play: func(w *wire) {
			// The ACK is the drill's fault. That of the next request says that the READ had no
			// answer.
			w.ask(read, 0, 64).ack(0, 1).ask(writeOnly, 1, 8).ack(1, 2).bAsk(50).bAck(50, 1).ask(writeOnly, 2, 8)
		}},
		{number: 25, why: "UC answers nothing"},
		{number: 26, rules: []strict.Rule{strict.RuleFlowLabel},
			play: func(w *wire) { w.v6 = true; w.connect(1).ask(writeOnly, 100, 8) }},
		{number: 27, rxe: 1, rules: []strict.Rule{strict.RuleRNRKind},
			play: func(w *wire) { w.ask(read, 0, 1024).nak(ib.RNRNAK(12), 0, 1) }},
		{number: 27, rxe: 1, rules: []strict.Rule{strict.RuleResponse}, certain: true, play: func(w *wire) {
			w.ask(read, 0, 1024).nak(ib.RNRNAK(12), 0, 1).wait(200e6).ask(read, 0, 1024).
				data(ib.RCReadRespLast, 0, 1, 1024)
		}},
		{number: 28, rules: []strict.Rule{strict.RuleNoRetry}, certain: true, play: func(w *wire) {
			// The ACK is the drill's fault; the WRITE that it completes is never sent again.
			w.connect(1).ask(writeOnly, 100, 8).ack(1100, 1000)
			for i := range 4 {
				w.wait(2e9).ask(writeOnly, 101+i, 8)
			}
		}},
		{number: 29, why: "that a program drained a send queue, and what it posted then, is in no packet"},
		{number: 30, why: "UD answers nothing"},
		{number: 31, rxe: 1, rules: []strict.Rule{strict.RuleNAKCode}, certain: true, play: func(w *wire) {
			w.ask(writeFirst, 0, 256, length(1<<31+1)).nak(ib.NAKRemoteAccess, 0, 0)
		}},
		{number: 32, rxe: 1, rules: []strict.Rule{strict.RuleRefuse}, certain: true, play: func(w *wire) {
			w.ask(read, 0, 8, func(p *pcap.Packet) { p.Payload = make([]byte, 16) }).data(ib.RCReadRespOnly, 0, 1, 8)
		}},
		{number: 33, why: "statuses of completions are in no packet"},
		{number: 34, why: "what a kernel logs is in no packet"},
		{number: 35,
			why: "nobody has to answer what it is sent, so that a machine which stopped is silent as any other"},
		{number: 36, rxe: 1, rules: []strict.Rule{strict.RuleZeroLength}, certain: true, play: func(w *wire) {
			w.ask(writeOnly, 0, 8, length(0)).nak(ib.NAKRemoteAccess, 0, 0) // 6.12; 6.1 is silent for ever
		}},
		{number: 37, rxe: 1, rules: []strict.Rule{strict.RuleRefuse}, certain: true, play: func(w *wire) {
			w.ask(ib.RCAtomicWrite, 0, 0).data(ib.RCReadRespOnly, 0, 1, 0)
		}},
		{number: 38, why: "no rule says how queue pairs are numbered"},
		{number: 39,
			why: "the NAK may be for the SEND that follows: how long the receive is that it meets is in no packet"},
	}
}

// The rows of docs/rxe.md that a trace shows, without being told of them, from the packets of their
// drills.
func TestRxeRows(t *testing.T) {
	type found struct{ certain, possible bool }
	by, whys := map[int]found{}, map[int]string{}
	for _, r := range rows() {
		if r.play == nil {
			whys[r.number] = r.why
			require.NotEmpty(t, r.why)
			continue
		}
		w := newWire()
		r.play(w)
		rep := check(all, w.all)
		for _, rule := range r.rules {
			n := 0
			for _, v := range rep.Violations {
				if v.Rule == rule && v.By == w.addr(r.rxe) {
					n++
					require.Equal(t, r.certain, v.Certain, "row %d: %+v", r.number, v)
				}
			}
			require.NotZero(t, n, "row %d: no %s by rxe in %+v", r.number, rule, rep.Violations)
		}
		f := by[r.number]
		f.certain, f.possible = f.certain || r.certain, f.possible || !r.certain
		by[r.number] = f
	}
	sure := 0
	var list []string
	for n := 1; n <= 39; n++ {
		f, ok := by[n]
		require.True(t, ok || whys[n] != "", "row %d", n)
		if f.certain {
			sure++
		}
		if ok {
			list = append(list, fmt.Sprint(n))
		}
	}
	t.Logf("%d rows of 39 are found, %d of them for certain: %s", len(by), sure, strings.Join(list, " "))
	require.Equal(t, 24, len(by))
	require.Equal(t, 21, sure)
}
