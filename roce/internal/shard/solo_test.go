package shard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// solos plays a script on the rule for who receives for itself. A line is
//
//	[xN] recv P [A] [B] ...   P packets, which set the signals A, B ...; "told": somebody else was told
//	posted N                  so many messages were posted behind others
//	streams                   messages were posted together
//	end [idle]                the goroutine of the shard takes over
//
// and the answer is who may receive then, or why nobody.
func solos(script string) string {
	v := &solo{}
	sigs := map[string]*Signal{"A": NewSignal(), "B": NewSignal(), "told": nil}
	var out strings.Builder
	for line := range strings.SplitSeq(strings.TrimSpace(script), "\n") {
		line, _, _ = strings.Cut(strings.TrimSpace(line), " ->")
		line = strings.TrimSpace(line)
		f, times := strings.Fields(line), 1
		if n, ok := strings.CutPrefix(f[0], "x"); ok {
			fmt.Sscan(n, &times)
			f = f[1:]
		}
		for range times {
			switch f[0] {
			case "recv":
				for _, who := range f[2:] {
					v.woke(sigs[who])
				}
				packets := 0
				fmt.Sscan(f[1], &packets)
				v.handled(packets)
			case "posted":
				n := 0
				fmt.Sscan(f[1], &n)
				for range n {
					v.posted()
				}
			case "streams":
				v.streams()
			case "end":
				v.end(len(f) > 1)
			}
			if v.proven() {
				v.begin(v.last)
			}
		}
		answer := "nobody"
		for name, sig := range sigs {
			if v.is(sig) {
				answer = name
			}
		}
		if v.over() {
			answer += ", over"
		}
		fmt.Fprintf(&out, "%s -> %s\n", line, answer)
	}
	return out.String()
}

// Who may receive for itself, as transcripts.
func TestSoloTranscripts(t *testing.T) {
	for name, script := range map[string]string{
		"a conversation": `
			x15 recv 1 A -> nobody
			recv 2 A -> nobody
			recv 1 A -> A
			x1000 recv 1 A -> A
		`,
		"looks that find nothing say nothing": `
			x17 recv 1 A -> A
			x100 recv 0 -> A
		`,
		"acknowledgements between": `
			x40 recv 1 A -> A
			x4 recv 1 -> A
			recv 1 -> A, over
		`,
		"two that wait": `
			x15 recv 1 A -> nobody
			x15 recv 1 B -> nobody
			recv 1 A -> nobody
			x100 recv 1 A B -> nobody
			x16 recv 1 A -> nobody
			recv 1 A -> A
			recv 1 B -> A
			recv 1 A B -> A, over
		`,
		"one that is told by other means": `
			x100 recv 1 told -> nobody
			x17 recv 1 A -> A
			x2 recv 1 told -> A, over
		`,
		"streams": `
			x100 recv 5 A -> nobody
			x17 recv 4 A -> A
			x2 recv 5 A -> A, over
		`,
		"messages one after the other": `
			x17 recv 1 A -> A
			posted 4 -> A
			recv 1 A -> A
			posted 5 -> A, over
		`,
		"messages together": `
			x17 recv 1 A -> A
			streams -> A, over
		`,
		"it takes twice as many turns each time": `
			x17 recv 1 A -> A
			end -> nobody
			x31 recv 1 A -> nobody
			recv 1 A -> A
			end -> nobody
			x63 recv 1 A -> nobody
			recv 1 A -> A
			end idle -> nobody
			x63 recv 1 A -> nobody
			recv 1 A -> A
			x1024 recv 1 A -> A
			end idle -> nobody
			x31 recv 1 A -> nobody
			recv 1 A -> A
		`,
	} {
		t.Run(name, func(t *testing.T) {
			var want []string
			for line := range strings.SplitSeq(strings.TrimSpace(script), "\n") {
				want = append(want, strings.TrimSpace(line))
			}
			require.Equal(t, strings.Join(want, "\n")+"\n", solos(script))
		})
	}
}

// However often it ends, there is a bound to what it takes.
func TestSoloProofIsBounded(t *testing.T) {
	v := &solo{last: NewSignal()}
	for range 64 {
		v.begin(v.last)
		v.end(false)
	}
	require.Equal(t, maxSoloTurns, v.enough())
}

// What was in vain is tried after 1, 3, 7 ... times, and sooner when it has paid.
func TestTrial(t *testing.T) {
	var v Trial
	skipped := func() (n int) {
		for ; !v.Due(); n++ {
		}
		return n
	}
	for _, want := range []int{1, 3, 7, 15, 31, 63, 127, 255, 255} {
		v.InVain()
		require.Equal(t, want, skipped())
	}
	for range 8 {
		v.Paid()
		require.Zero(t, skipped())
	}
	v.InVain()
	require.Equal(t, 1, skipped())
}

// A signal is kept until somebody takes it, once.
func TestSignal(t *testing.T) {
	s := NewSignal()
	require.False(t, s.take())
	s.Set()
	s.Set()
	require.True(t, s.isSet())
	require.True(t, s.take())
	require.False(t, s.take())
}
