package explain

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// onPaper returns the text of the printed page, a string a page, as pdftotext sees it.
func onPaper(t *testing.T, page []byte) []string {
	t.Helper()
	chromium := browser(t)
	totext, err := exec.LookPath("pdftotext")
	if err != nil {
		t.Skip("no pdftotext is installed (Debian: apt install poppler-utils): what is printed is not read")
	}
	dir := t.TempDir()
	in, pdf := filepath.Join(dir, "page.html"), filepath.Join(dir, "page.pdf")
	require.NoError(t, os.WriteFile(in, page, 0o644))
	u := url.URL{Scheme: "file", Path: in}
	out, err := exec.CommandContext(t.Context(), chromium, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+filepath.Join(dir, "profile"),
		"--virtual-time-budget=10000", "--no-pdf-header-footer", "--print-to-pdf="+pdf, u.String()).CombinedOutput()
	require.NoError(t, err, string(out))
	text, err := exec.CommandContext(t.Context(), totext, "-layout", pdf, "-").Output()
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(text), "\f"), "\f")
}

// packetLine is a packet of a printed ladder: number, time, and what it is.
var packetLine = regexp.MustCompile(`(?m)^ *(\d+) +[\d.]+ (?:µs|ms|s) .*\w`)

// A short capture is printed whole, with the names of the ends, and without what is of no use on paper.
func TestPaperOfShortCapture(t *testing.T) {
	page, _, err := explained(t, "--html", captures+"rping.pcap")
	require.NoError(t, err)
	pages := onPaper(t, []byte(page))
	all := strings.Join(pages, "")
	require.Len(t, packetLine.FindAllString(all, -1), 41)
	require.Regexp(t, `packet, time +10\.77\.0\.2 QP 0x000011 +10\.77\.0\.3 QP 0x000011`, all)
	require.Contains(t, all, "1 connection\n")
	for _, not := range []string{"Keys", "only what was sent again", "PgUp"} {
		require.NotContains(t, all, not)
	}
}

// Of a long one the packets around each finding are printed, and no heading stands at the end of a page.
func TestPaperOfLongCapture(t *testing.T) {
	page, _, err := explained(t, "--html", captures+"rc_pingpong_loss.pcap")
	require.NoError(t, err)
	pages := onPaper(t, []byte(page))
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
