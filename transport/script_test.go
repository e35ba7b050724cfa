package transport

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

// script is a requester whose peer is played by the test: what it sends is compared with a
// transcript, and the responses are written down in it. PSNs in transcripts count from the first
// PSN of the connection, which is close to the wrap.
type script struct {
	*loop
	psn0 ib.PSN
	ids  uint64
}

const scriptPSN = 0xFFFFFD

func newScript(t testing.TB, o loopOptions) *script {
	if o.psn == 0 {
		o.psn = scriptPSN
	}
	if o.mtu == 0 {
		o.mtu = ib.MTU256
	}
	return &script{loop: newLoop(t, o), psn0: o.psn}
}

// post posts a signaled request of n bytes whose ID is its number, from 0.
func (s *script) post(op WROpcode, n int, edit ...func(*SendWR)) {
	s.t.Helper()
	wr := SendWR{
		ID: s.ids, Opcode: op, Flags: SendSignaled, SGList: []SGE{s.a.at(0, n)},
		RemoteAddr: 0x1000, RKey: 0xABCD,
	}
	for _, f := range edit {
		f(&wr)
	}
	require.NoError(s.t, s.a.qp.PostSend(s.now, &wr))
	s.ids++
}

// sent takes what the requester has to send, in the notation of the transcripts: opcode, PSN, "A"
// if it asks for an ACK, and for a RETH its offset from the address that post gave and its length.
func (s *script) sent() []string {
	var log []string
	for {
		n := s.a.e.PollTransmit(s.now, s.batch)
		if n == 0 {
			return log
		}
		for i := range s.batch[:n] {
			var p ib.Packet
			b := append(s.batch[i].AppendTo(nil), 0, 0, 0, 0)
			require.Equal(s.t, ib.DecodeOK, p.Decode(b))
			line := fmt.Sprintf("%v %d", strings.TrimPrefix(p.Opcode.String(), "RC "), p.PSN.Diff(s.psn0))
			if p.AckReq {
				line += " A"
			}
			if p.Opcode.Has(ib.HasRETH) {
				line += fmt.Sprintf(" +%d/%d", p.RETH.VA-0x1000, p.RETH.Len)
			}
			log = append(log, line)
		}
	}
}

// sends is the transcript of what is sent now.
func (s *script) sends(want ...string) {
	s.t.Helper()
	require.Equal(s.t, want, s.sent())
}

// silent says that nothing is sent now.
func (s *script) silent() {
	s.t.Helper()
	require.Empty(s.t, s.sent())
}

// respond hands a response to the requester.
func (s *script) respond(p ib.Packet) {
	p.PKey, p.DestQP = ib.PKeyDefault, s.a.qp.Number()
	p.PSN = s.psn0.Add(int(int32(p.PSN<<8) >> 8))
	p.Pad = uint8(ib.PadFor(len(p.Payload)))
	c := ib.NewICRC(ib.Flow{Src: s.b.addr, Dst: s.a.addr})
	s.a.e.HandlePacket(s.now, &RxPacket{Src: s.b.addr, Dst: s.a.addr, Data: p.Append(nil, &c, 0)})
}

func (s *script) ack(psn int) { s.aeth(psn, ib.ACKNoCredits, 0) }

func (s *script) nak(psn int, syndrome ib.Syndrome) { s.aeth(psn, syndrome, 0) }

func (s *script) aeth(psn int, syndrome ib.Syndrome, msn ib.MSN) {
	s.respond(ib.Packet{
		BTH:  ib.BTH{Opcode: ib.RCAcknowledge, PSN: ib.PSN(psn) & ib.PSNMask},
		AETH: ib.AETH{Syndrome: syndrome, MSN: msn},
	})
}

func (s *script) data(op ib.Opcode, psn int, payload []byte) {
	s.respond(ib.Packet{BTH: ib.BTH{Opcode: op, PSN: ib.PSN(psn) & ib.PSNMask},
		AETH: ib.AETH{Syndrome: ib.ACKNoCredits}, Payload: payload})
}

func (s *script) atomic(psn int, value uint64) {
	s.respond(ib.Packet{
		BTH:  ib.BTH{Opcode: ib.RCAtomicAck, PSN: ib.PSN(psn) & ib.PSNMask},
		AETH: ib.AETH{Syndrome: ib.ACKNoCredits}, AtomicAck: value,
	})
}

// advance lets time pass.
func (s *script) advance(ns int64) {
	s.now += ns
	s.a.e.HandleTimeout(s.now)
}

// timer is the time to the next timeout, -1 if there is none.
func (s *script) timer() int64 {
	at, ok := s.a.e.NextTimeout()
	if !ok {
		return -1
	}
	return at - s.now
}

// done is the transcript of completions: "id status".
func (s *script) done(want ...string) {
	s.t.Helper()
	got := []string{}
	for _, wc := range completions(s.a.scq) {
		got = append(got, fmt.Sprintf("%d %v", wc.ID, wc.Status))
	}
	if want == nil {
		want = []string{}
	}
	require.Equal(s.t, want, got)
}

func (s *script) state(want QPState) {
	s.t.Helper()
	require.Equal(s.t, want, s.a.qp.State())
}
