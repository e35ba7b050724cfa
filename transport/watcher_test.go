package transport_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

// The watcher must be able to fail: traces that break one behaviour each.
func TestWatcherCanaries(t *testing.T) {
	// caught runs a short exchange in which change tampers with what the watcher
	// is shown, and reports whether it noticed.
	caught := func(change func(p *pair, w *watcher, f *flight)) bool {
		r := &recorder{TB: t}
		defer func() {
			if e := recover(); e != nil && e != errRecorded {
				panic(e)
			}
		}()
		func() {
			defer func() {
				if e := recover(); e != nil && e != errRecorded {
					panic(e)
				}
			}()
			p := newPair(r, pairConfig{})
			w := watch(r, p, 1*ms)
			a, b := p.connect(linkConfig{})
			p.onSend = func(f *flight) { change(p, w, f) }
			b.recv(1, 0, 4096)
			a.post(a.write(0, 0, 4096))
			a.post(a.read(0, 0, 4096))
			a.post(a.send(0, 100))
			p.run()
			w.counters()
		}()
		return r.failed
	}
	require.False(t, caught(func(*pair, *watcher, *flight) {}), "nothing is wrong with this one")
	shown := func(match func(f *flight) bool, change func(k *ib.Packet)) func(*pair, *watcher, *flight) {
		return func(p *pair, w *watcher, f *flight) {
			if match(f) {
				change(&f.pkt) // the bytes stay as they are
			}
		}
	}
	is := func(op ib.Opcode) func(f *flight) bool { return func(f *flight) bool { return f.pkt.Opcode == op } }
	for name, tamper := range map[string]func(*pair, *watcher, *flight){
		"L1: ACK of what did not arrive": shown(is(ib.RCAcknowledge), func(k *ib.Packet) { k.PSN = k.PSN.Add(20) }),
		"L1: NAK of the wrong PSN": func(p *pair, w *watcher, f *flight) {
			f.lost = f.is(p.ends[0], ib.RCWriteMiddle, 1, 0)
			if f.pkt.Opcode == ib.RCAcknowledge && f.pkt.AETH.Syndrome == ib.NAKSequence {
				f.pkt.PSN = f.pkt.PSN.Next()
			}
		},
		"L1: the same NAK again": func(p *pair, w *watcher, f *flight) {
			f.lost = f.is(p.ends[0], ib.RCWriteMiddle, 1, 0)
			if f.pkt.Opcode == ib.RCAcknowledge && f.pkt.AETH.Syndrome == ib.NAKSequence {
				w.sent(f)
			}
		},
		"L2: a PSN is skipped":       shown(is(ib.RCReadRequest), func(k *ib.Packet) { k.PSN = k.PSN.Next() }),
		"L2: goes back without need": shown(is(ib.RCWriteLast), func(k *ib.Packet) { k.PSN = k.PSN.Prev() }),
		"L3: asks for too much": func(p *pair, w *watcher, f *flight) {
			f.lost = f.is(p.ends[1], ib.RCReadRespMiddle, 5, 0)
			if f.pkt.Opcode == ib.RCReadRequest && f.pkt.RETH.Len < 4096 {
				f.pkt.RETH.Len++
			}
		},
		"L4: a packet is not counted": func(p *pair, w *watcher, f *flight) { w.counts[0].SentPkts++ },
		"L10: M is 0":                 shown(is(ib.RCSendOnly), func(k *ib.Packet) { k.MigReq = false }),
	} {
		require.True(t, caught(tamper), name)
	}
}
