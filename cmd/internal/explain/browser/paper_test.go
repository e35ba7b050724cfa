package browser

import (
	"regexp"
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/internal/explain"
	"github.com/stretchr/testify/require"
)

// packetLine is a packet of a printed ladder: number, time, and what it is.
var packetLine = regexp.MustCompile(`(?m)^ *(\d+) +[\d.]+ (?:µs|ms|s) .*\w`)

// A short capture is printed whole, with the names of the ends, and without what is of no use on
// paper.
func TestPaperOfShortCapture(t *testing.T) {
	html := command(t, explain.Command(), captures+"rping.pcap")
	pages := onPaper(t, html)
	all := strings.Join(pages, "")
	require.Len(t, packetLine.FindAllString(all, -1), 41)
	require.Regexp(t, `packet, time +10\.77\.0\.2 QP 0x000011 +10\.77\.0\.3 QP 0x000011`, all)
	require.Contains(t, all, "1 connection. Begins 20")
	for _, not := range []string{"Keys", "only what went wrong", "time to scale", "PgUp"} {
		require.NotContains(t, all, not)
	}
}

// Of a long one the packets around each finding are printed, and no heading stands at the end of a
// page.
func TestPaperOfLongCapture(t *testing.T) {
	html := command(t, explain.Command(), captures+"rc_pingpong_loss.pcap")
	pages := onPaper(t, html)
	heading := regexp.MustCompile(`^(lost|late)-\w+, packet \d+$|^packet, time`)
	ladders := 0
	for _, p := range pages {
		lines := strings.Split(strings.TrimSpace(p), "\n")
		require.NotRegexp(t, heading, lines[len(lines)-1])
		ladders += strings.Count(p, "packet, time")
	}
	require.Equal(t, 23, ladders, "one of each finding")
	require.Contains(t, pages[len(pages)-1], "All 677 packets are on the page itself.")
	// The advice is the same for each finding of a kind: lost-request and lost-ack have this one.
	require.LessOrEqual(t, strings.Count(strings.Join(pages, ""), "Look for drops on the way"), 3)
}
