package explain

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/stretchr/testify/require"
)

// browser returns Chromium, or skips the test.
func browser(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("short: a browser takes seconds")
	}
	seeds.Long(t)
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium is installed (Debian: apt install chromium): the page is not rendered")
	return ""
}

// rendered returns the document after its scripts have run.
func rendered(t *testing.T, page []byte, hash string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, os.WriteFile(path, page, 0o644))
	u := url.URL{Scheme: "file", Path: path, Fragment: hash}
	// As root Chromium runs only without its sandbox; the page is our own.
	cmd := exec.CommandContext(t.Context(), browser(t), "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,900",
		"--user-data-dir="+t.TempDir(), "--virtual-time-budget=10000", "--dump-dom", u.String())
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, errs.String())
	return string(out)
}

// The page needs nothing from elsewhere, and no text of the capture becomes a tag.
func TestPageStandsAlone(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "<b>&.pcap")
	b, err := os.ReadFile(captures + "rping.pcap")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, b, 0o644))
	page, _, err := explained(t, "--html", name)
	require.NoError(t, err)
	require.NotRegexp(t, `(?i)(src|href)=|https?:|@import|url\(`, page)
	require.NotContains(t, page, "<b>&.pcap")
	require.Equal(t, 1, strings.Count(page, "</script>"))
}

// The page shows the findings and the packets around the first one, in Chromium.
func TestPageInBrowser(t *testing.T) {
	page, _, err := explained(t, "--html", captures+"rc_pingpong_loss.pcap")
	require.NoError(t, err)
	doc := rendered(t, []byte(page), "")
	require.Contains(t, doc, `data-ready="yes"`, "a script failed")
	require.Equal(t, 23, strings.Count(doc, `role="button"`), "findings")
	require.Contains(t, doc, "NAK PSN sequence error 6042660")
	require.Regexp(t, `class="row hit sel"[^>]*><span>4 `, doc, "the first finding's packet is selected")
	require.Contains(t, doc, "again: sequence NAK")
	require.Contains(t, doc, "Goodput")

	// A link goes to a packet.
	doc = rendered(t, []byte(page), "packet=600")
	require.Regexp(t, `class="row[^"]* sel"[^>]*><span>600 `, doc)
}

// repeated is a pcap file with the packets of another one until there are n, a second after the other: new
// PSNs would need new ICRCs, and the page does not mind.
func repeated(t *testing.T, n int) []byte {
	t.Helper()
	b, err := os.ReadFile(captures + "rc_pingpong_loss.pcap")
	require.NoError(t, err)
	out := bytes.Clone(b[:24])
	for round := uint32(0); n > 0; round++ {
		for rest := b[24:]; len(rest) >= 16 && n > 0; n-- {
			size := 16 + binary.LittleEndian.Uint32(rest[8:])
			at := len(out)
			out = append(out, rest[:size]...)
			binary.LittleEndian.PutUint32(out[at:], binary.LittleEndian.Uint32(out[at:])+round)
			rest = rest[size:]
		}
	}
	return out
}

// Of 100,000 packets the page holds only the rows that are seen, wherever it is scrolled to.
func TestPageOf100000(t *testing.T) {
	browser(t)
	const n = 100_000
	var e explanation
	e.Name = "many"
	drawn := &window{most: n}
	require.NoError(t, e.read(bytes.NewReader(repeated(t, n)), analyse.Options{}, drawn))
	require.Equal(t, n, e.Packets)
	var page bytes.Buffer
	require.NoError(t, e.writePage(&page, drawn))
	// Scroll through all of it, a screen and a half at a time, and note the most rows and the slowest step.
	probe := `<script>{ const box = document.getElementById("ladder"); let most = 0, slow = 0, steps = 0;
for (let y = 0; y < box.scrollHeight; y += Math.max(box.clientHeight * 1.5, box.scrollHeight / 500)) { const t = performance.now(); box.scrollTop = y; draw();
  slow = Math.max(slow, performance.now() - t); most = Math.max(most, document.querySelectorAll("#space .row").length); steps++; }
document.body.dataset.probe = most + " rows, " + steps + " steps, " + slow.toFixed(1) + " ms"; }</script></body>`
	doc := rendered(t, bytes.Replace(page.Bytes(), []byte("</body>"), []byte(probe), 1), fmt.Sprintf("packet=%d", n-10))
	m := regexp.MustCompile(`data-probe="(\d+) rows, (\d+) steps, ([^"]*)"`).FindStringSubmatch(doc)
	require.NotNil(t, m, "a script failed")
	var most, steps int
	fmt.Sscan(m[1], &most)
	fmt.Sscan(m[2], &steps)
	require.Less(t, most, 200, "rows in the document")
	require.Greater(t, steps, 400)
	t.Logf("%d bytes; at most %d rows in the document; slowest of %d steps %s", page.Len(), most, steps, m[3])
}
