package shard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func (n next) String() string { return [...]string{"send", "receive more", "await reply"}[n] }

// replay plays a script on the rule for acknowledgements, a line for each thing that
// happens, and returns what the rule answers, beside it:
//
//	recv N [gathered G] [timer] [look] [woke] [reply] [more]   N packets were handled
//	sent                                                       something was sent
//	quiet                                                      nobody replied
//
// "reply" says that the application is likely to reply, "more" that there is more to send than
// acknowledgements.
func replay(background bool, script string) string {
	var a delayedAck
	var out strings.Builder
	for line := range strings.SplitSeq(strings.TrimSpace(script), "\n") {
		line, _, _ = strings.Cut(strings.TrimSpace(line), " ->")
		line = strings.TrimSpace(line)
		f := strings.Fields(line)
		answer := ""
		switch f[0] {
		case "recv":
			r := received{background: background, onlyAcks: true, expectReply: Never}
			fmt.Sscan(f[1], &r.packets)
			r.gathered = r.packets
			for i, w := range f[2:] {
				switch w {
				case "gathered":
					fmt.Sscan(f[i+3], &r.gathered)
				case "timer":
					r.timer = true
				case "look":
					r.lookOnce = true
				case "woke":
					r.woke = true
				case "reply":
					r.expectReply = Always
				case "more":
					r.onlyAcks = false
				}
			}
			answer = a.afterReceive(r).String()
			if answer == "send" {
				a.answered()
			}
		case "sent":
			answer = fmt.Sprintf("delayed %v", a.delayed())
			a.answered()
		case "quiet":
			answer = fmt.Sprintf("fruitless %v", a.fruitless())
		}
		fmt.Fprintf(&out, "%s -> %s\n", line, answer)
	}
	return out.String()
}

// The rule for acknowledgements, as transcripts.
func TestDelayedAckTranscripts(t *testing.T) {
	for name, c := range map[string]struct {
		background bool
		script     string
	}{
		"what is at hand in the link comes first": {true, `
			recv 1 -> receive more
			recv 3 gathered 4 -> receive more
			recv 0 gathered 4 -> send
		`},
		"but not for ever": {true, `
			recv 31 -> receive more
			recv 1 gathered 32 -> send
		`},
		"nor past a timer, or for something else than acknowledgements": {true, `
			recv 1 timer -> send
			recv 1 more -> send
			recv 1 more reply woke -> send
		`},
		"nor when polled": {false, `
			recv 1 -> send
		`},
		"a reply takes the acknowledgement along": {true, `
			recv 1 woke reply -> await reply
			sent -> delayed true
			recv 1 woke reply -> await reply
			sent -> delayed true
			recv 1 woke reply -> await reply
		`},
		"without one it is tried less and less often": {false, `
			recv 1 reply -> await reply
			quiet -> fruitless true
			recv 1 reply -> send
			recv 1 reply -> await reply
			quiet -> fruitless true
			recv 1 reply -> send
			recv 1 reply -> send
			recv 1 reply -> send
			recv 1 reply -> await reply
			sent -> delayed true
			recv 1 reply -> await reply
			quiet -> fruitless true
			recv 1 reply -> send
			recv 1 reply -> await reply
		`},
		"nothing is delayed past a timer": {false, `
			recv 1 reply timer -> send
			quiet -> fruitless false
		`},
		"a timer that waits for a look at the link gets one": {false, `
			recv 2 timer look -> send
			recv 0 timer look -> receive more
			recv 0 timer -> send
		`},
	} {
		t.Run(name, func(t *testing.T) {
			var want strings.Builder
			for line := range strings.SplitSeq(strings.TrimSpace(c.script), "\n") {
				fmt.Fprintln(&want, strings.TrimSpace(line))
			}
			require.Equal(t, want.String(), replay(c.background, c.script))
		})
	}
}

// The penalty for fruitless delays has a bound.
func TestDelayedAckPenalty(t *testing.T) {
	var a delayedAck
	for range 20 {
		a.skip = 0
		require.True(t, a.begin(0, true))
		require.True(t, a.fruitless())
	}
	require.EqualValues(t, maxBackOff-1, a.skip)
}

// The rule for messages that are posted one by one, as a transcript: post N is a message
// of N bytes, turn one of the goroutine.
func TestCoalescerTranscript(t *testing.T) {
	var c coalescer
	post := func(bytes int) bool {
		wait := c.add(0, bytes)
		if !wait {
			c.sent(0)
		}
		return wait
	}
	turn := func() bool {
		quiet := c.quiet()
		if quiet {
			c.sent(0)
		}
		return quiet
	}
	require.False(t, turn(), "nothing waits")
	require.True(t, post(64))
	require.True(t, c.waiting())
	require.False(t, turn(), "posted since the turn before")
	require.True(t, post(64))
	require.False(t, turn(), "and again")
	require.True(t, turn(), "quiet: it is sent")
	require.False(t, c.waiting())
	require.False(t, turn())

	for range gather - 1 {
		require.True(t, post(0))
	}
	require.False(t, post(0), "so many leave at once")
	require.False(t, c.waiting())

	require.True(t, post(coalesceBytes-1))
	require.False(t, post(1), "and so much")
	require.True(t, post(coalesceBytes-1), "counted anew")
	c.sent(0) // with something else
	require.False(t, c.waiting())
	require.False(t, turn())
}

// Goroutines that were woken have run when the goroutine of the shard runs again; threads have not.
func TestAckDelayOver(t *testing.T) {
	var a delayedAck
	require.True(t, a.begin(1000, true))
	require.True(t, a.over(1000, false))
	require.False(t, a.over(1000, true))
	require.False(t, a.over(999+hoggedNs, true))
	require.True(t, a.over(1000+hoggedNs, true))
}
