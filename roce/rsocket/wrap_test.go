package rsocket

import (
	"fmt"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
)

// The numbers of messages, credits and the moment to give them have 16 bits and
// wrap. More messages than that go through, whatever the queue: one at a time, or as many as
// the credits allow. The peer is told of credits no more often than it needs: once for each half of
// the queue, and once for each half of the buffer.
func TestStreamWraps(t *testing.T) {
	seeds.Slow(t)
	const messages = 3*65536 + 1000
	for _, tt := range []struct {
		queue int
		burst bool
	}{{minQueue, true}, {defaultQueue, false}, {0x8000, true}, {maxQueue, true}} {
		t.Run(fmt.Sprintf("queue %d burst %v", tt.queue, tt.burst), func(t *testing.T) {
			t.Parallel()
			cfg := Config{SendBuffer: minSendBuffer, RecvBuffer: 1 << 20, SendQueue: maxQueue,
				RecvQueue: tt.queue}.normal()
			a, b := newModels(t, cfg, cfg)
			updates := 0
			for sent := 0; sent < messages; {
				n := 0
				for (n == 0 || tt.burst) && a.write(1) {
					n++
				}
				if n == 0 {
					t.Fatalf("stands still after %d messages: number %d, limit %d", sent, a.s.snd.seq, a.s.snd.limit)
				}
				sent += n
				for a.deliver() {
				}
				for a.complete() {
				}
				b.take(n)
				b.credit()
				for b.deliver() {
					updates++
				}
				for b.complete() {
				}
			}
			if most := messages/(tt.queue/2) + messages/(cfg.RecvBuffer/2) + 2; updates > most {
				t.Fatalf("%d messages of credit, at most %d are needed", updates, most)
			}
		})
	}
}
