package transport_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
)

// The error scenarios of datenlord/roce-sim by their names, so that results
// compare. Each runs between two engines; "limit" is 3 retries.
func TestScenarios(t *testing.T) {
	const limit = 3
	// first loses the first n packets of an end that have one of the opcodes.
	first := func(p *pair, from *link, n int, ops ...ib.Opcode) {
		p.lose(func(f *flight) bool {
			for _, op := range ops {
				if f.from == from.end && f.pkt.Opcode == op && n > 0 {
					n--
					return true
				}
			}
			return false
		})
	}
	const ok, retryExceeded = "1 success", "1 transport retry counter exceeded"
	for _, tc := range []struct {
		name string
		run  func(p *pair, a, b *link)
		want string
	}{
		{"rkey_violation", func(p *pair, a, b *link) {
			a.post(with(a.write(0, 0, 64), func(wr *transport.SendWR) { wr.RKey++ }))
		}, "1 remote access error"},
		{"rnr_nak_retry_limit_exceeded", func(p *pair, a, b *link) {
			a.post(a.send(0, 64))
		}, "1 RNR retry counter exceeded"},
		{"rnr_nak_retry_limit_not_exceeded", func(p *pair, a, b *link) {
			a.post(a.send(0, 64))
			p.advance(1500 * us) // two RNR NAKs of 0.64 ms
			b.recv(1, 0, 64)
		}, ok},
		{"psn_retry_limit_exceeded", func(p *pair, a, b *link) {
			// Each repetition loses its first packet, so that each is NAKed.
			p.lose(func(f *flight) bool { return f.from == a.end && f.pkt.Opcode == ib.RCWriteFirst })
			a.post(a.write(0, 0, 4096))
		}, retryExceeded},
		{"psn_retry_limit_not_exceeded", func(p *pair, a, b *link) {
			first(p, a, limit, ib.RCWriteFirst)
			a.post(a.write(0, 0, 4096))
		}, ok},
		{"local_ack_timeout_retry_limit_exceeded", func(p *pair, a, b *link) {
			first(p, b, 100, ib.RCAcknowledge)
			a.post(a.write(0, 0, 64))
		}, retryExceeded},
		{"local_ack_timeout_retry_limit_not_exceeded", func(p *pair, a, b *link) {
			first(p, b, limit, ib.RCAcknowledge)
			a.post(a.write(0, 0, 64))
		}, ok},
		{"implied_nak_sequence_error_retry_limit_exceeded", func(p *pair, a, b *link) {
			p.lose(func(f *flight) bool {
				return f.from == b.end && f.pkt.Opcode.Info().Op == ib.OpReadResponse && f.rel == 0
			})
			a.post(a.read(0, 0, 4096))
		}, retryExceeded},
		{"implied_nak_sequence_error_retry_limit_not_exceeded", func(p *pair, a, b *link) {
			first(p, b, limit, ib.RCReadRespFirst)
			a.post(a.read(0, 0, 4096))
		}, ok},
		{"remote_operation_err", func(p *pair, a, b *link) {
			wr := transport.RecvWR{SGList: []transport.SGE{b.sge(0, 64)}}
			wr.SGList[0].LKey++
			require.NoError(p.t, b.qp.PostRecv(&wr))
			a.post(a.send(0, 64))
		}, "1 remote operation error"},
		{"write_partial_retry", func(p *pair, a, b *link) {
			first(p, a, 1, ib.RCWriteMiddle)
			a.post(a.write(0, 0, 4096))
		}, ok},
		{"read_partial_retry", func(p *pair, a, b *link) {
			first(p, b, 1, ib.RCReadRespMiddle)
			a.post(a.read(0, 0, 4096))
		}, ok},
		{"read", func(p *pair, a, b *link) { a.post(a.read(0, 0, 4096)) }, ok},
		{"send", func(p *pair, a, b *link) { b.recv(1, 0, 4096); a.post(a.send(0, 4096)) }, ok},
		{"write", func(p *pair, a, b *link) { a.post(a.write(0, 0, 4096)) }, ok},
		{"write_imm", func(p *pair, a, b *link) {
			b.recv(1, 0, 0)
			a.post(with(a.write(0, 0, 4096), func(wr *transport.SendWR) { wr.Opcode = transport.WRWriteImm }))
		}, ok},
		{"atomic_cas", func(p *pair, a, b *link) { a.post(a.compareSwap(0, 0, 0, 1)) }, ok},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPair(t, pairConfig{})
			a, b := p.connect(linkConfig{
				attr: func(l *link, at *transport.QPAttr) { at.RetryCnt, at.RNRRetry = limit, limit },
			})
			tc.run(p, a, b)
			p.run()
			a.wantWC(tc.want)
			state := transport.StateRTS
			if tc.want != ok {
				state = transport.StateErr
			}
			require.Equal(t, state, a.qp.State())
		})
	}
	t.Run("bad_response", func(t *testing.T) {
		d := newPuppet(t, pairConfig{}, linkConfig{})
		d.a.post(d.a.read(0, 0, 4096))
		d.pump()
		d.send(ib.RCReadRespFirst, 0, make([]byte, 512)) // not a full packet
		d.a.wantWC("1 bad response error")
	})
	t.Run("ghost_ack", func(t *testing.T) {
		d := newPuppet(t, pairConfig{}, linkConfig{})
		d.send(ib.RCAcknowledge, 0, nil)
		d.send(ib.RCAcknowledge, -1, nil)
		d.send(ib.RCReadRespOnly, 0, make([]byte, 8))
		d.wantState(transport.StateRTS)
		d.a.post(d.a.write(0, 0, 8))
		d.pump()
		d.send(ib.RCAcknowledge, 0, nil)
		d.a.wantWC("1 success")
	})
	t.Run("unexpected_opcode", func(t *testing.T) {
		d := newPuppet(t, pairConfig{}, linkConfig{})
		d.a.recv(1, 0, 4096)
		d.send(ib.RCSendFirst, 0, make([]byte, 1024))
		d.send(ib.RCWriteMiddle, 1, make([]byte, 1024))
		d.want("a> ACKNOWLEDGE 1 NAK invalid request msn=0")
		d.a.wantEvents() // the completion tells
		require.NotEqual(t, transport.WCSuccess, d.a.poll()[0].Status)
	})
}

// A connection is torn down and made anew with the same QP numbers while
// packets of the first are still on their way: they do no harm.
func TestReconnectWithOldPacketsOnTheWire(t *testing.T) {
	for round := range 20 {
		p := newPair(t, pairConfig{seed: uint64(round)})
		a, b := p.connect(linkConfig{})
		p.onSend = func(f *flight) { f.at += int64(f.seq%7) * 100 * us }
		a.fill(0, 8192, 1)
		for i := range 5 {
			a.post(a.write(0, 0x10000, 5000))
			b.recv(uint64(i), 0x20000, 4000)
			a.post(a.send(0, 3000))
			a.post(a.read(0x30000, 0, 3000))
		}
		p.pump()
		for range 3 * round {
			p.step(p.now + second)
		}
		require.NotEmpty(t, p.flying)
		for _, l := range []*link{a, b} {
			require.NoError(t, l.qp.Modify(p.now, transport.QPAttr{State: transport.StateReset}, transport.AttrState))
		}
		a.poll()
		b.poll()
		for i, l := range []*link{a, b} {
			l.attr.SQPSN = ib.PSN(0x400000 * (i + 1))
			l.attr.RQPSN = ib.PSN(0x400000 * (2 - i))
			l.bringUp(transport.StateRTS)
		}
		clear(b.buf)
		want := append([]byte(nil), a.fill(0, 5000, 9)...)
		b.recv(50, 0x8000, 5000)
		a.post(with(a.send(0, 5000), func(wr *transport.SendWR) { wr.ID = 100 }))
		a.post(with(a.read(0x40000, 0x50000, 5000), func(wr *transport.SendWR) { wr.ID = 101 }))
		read := append([]byte(nil), b.fill(0x50000, 5000, 10)...)
		p.run()
		a.wantWC("100 success", "101 success")
		b.wantWC("50 success")
		require.Equal(t, want, b.buf[0x8000:0x8000+5000])
		require.Equal(t, read, a.buf[0x40000:0x40000+5000])
		require.Equal(t, make([]byte, 5000), b.buf[0x10000:0x10000+5000], "an old WRITE was executed")
	}
}
