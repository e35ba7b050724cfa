package lesson

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/stretchr/testify/require"
)

// site writes the site, and returns its files.
func site(t *testing.T) (dir string, files map[string]string) {
	t.Helper()
	dir = t.TempDir()
	_, err := taught(t, "--site", dir)
	require.NoError(t, err)
	files = map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = string(b)
		return err
	}))
	return dir, files
}

// The site needs nothing from elsewhere, its links lead somewhere, and it is the same each time.
func TestSite(t *testing.T) {
	seeds.Long(t)
	_, files := site(t)
	_, again := site(t)
	for name, text := range files {
		require.True(t, text == again[name], "%s is another the second time", name)
	}
	link := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	for _, l := range everything() {
		require.Contains(t, files, l.name+".html")
	}
	for name, text := range files {
		if strings.HasPrefix(name, "packets/") {
			continue
		}
		require.NotRegexp(t, `(?i)https?:|@import|url\(`, text, name)
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			require.Contains(t, files, file, "%s links to %s", name, m[1])
			if anchor != "" {
				require.Contains(t, files[file], `id="`+anchor+`"`, "%s links to %s", name, m[1])
			}
		}
	}
	for _, l := range lessons() {
		text := files[l.name+".html"]
		for _, w := range wordsIn(&l) {
			require.Contains(t, text, "#"+anchor(w)+`"`, "%s: %s", l.name, w)
		}
		require.Equal(t, 1+len(l.tries), strings.Count(text, `class="run"`), l.name)
	}
	// Both sides of a quiz: four answers, one of them right, and the analyser is heard only then.
	for _, l := range quiz() {
		text := files[l.name+".html"]
		require.Equal(t, 1, strings.Count(text, `class="verdict right"`), l.name)
		require.Equal(t, 3, strings.Count(text, `class="verdict wrong"`), l.name)
		require.Equal(t, 1, strings.Count(text, "What the analyser makes of it"), l.name)
		require.NotContains(t, files, "packets/"+l.name+"-0.html")
	}
}

// luminance is that of WCAG 2, of #rrggbb.
func luminance(t *testing.T, color string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(color[1:], 16, 32)
	require.NoError(t, err)
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		c := float64(n>>(16-8*i)&255) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

// Every colour of text has a contrast of 4.5 with every colour that may be behind it, by day and by
// night.
func TestContrast(t *testing.T) {
	css, err := siteFiles.ReadFile("site/lesson.css")
	require.NoError(t, err)
	palettes := regexp.MustCompile(`:root \{([^}]*)\}`).FindAllStringSubmatch(string(css), -1)
	require.Len(t, palettes, 2)
	for i, p := range palettes {
		colors := map[string]string{}
		for _, m := range regexp.MustCompile(`--(\w+):(#[0-9a-f]{6})`).FindAllStringSubmatch(p[1], -1) {
			colors[m[1]] = m[2]
		}
		for _, ink := range []string{"ink", "dim", "link", "req", "ans", "again"} {
			for _, back := range []string{"back", "soft", "sel"} {
				a, b := luminance(t, colors[ink]), luminance(t, colors[back])
				ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05)
				require.GreaterOrEqual(t, ratio, 4.5, "palette %d: %s on %s", i, ink, back)
			}
		}
	}
	require.Empty(t, regexp.MustCompile(`[^-]color:#`).FindAllString(string(css), -1),
		"colours are those of the palette")
}

// rendered returns the document of a page after its scripts, and one more, have run in Chromium.
func rendered(t *testing.T, page, script string) string {
	t.Helper()
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
		}
	}
	if browser == "" {
		t.Skip("no Chromium is installed (Debian: apt install chromium): the site is not rendered")
	}
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	probe := strings.TrimSuffix(page, ".html") + ".probe.html"
	require.NoError(t, os.WriteFile(probe,
		bytes.Replace(b, []byte("</body>"), []byte("<script>"+script+"</script></body>"), 1), 0o644))
	u := url.URL{Scheme: "file", Path: probe}
	// As root Chromium runs only without its sandbox; the page is our own.
	cmd := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu",
		"--allow-file-access-from-files", "--window-size=1200,900", "--user-data-dir="+t.TempDir(),
		"--virtual-time-budget=20000", "--dump-dom", u.String())
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, errs.String())
	return string(out)
}

// By keyboard one goes from packet to packet, the picture of the queues goes along, and other
// numbers show another run. On a phone nothing is wider than the screen.
func TestSiteInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("short: a browser takes seconds")
	}
	seeds.Long(t)
	dir, _ := site(t)
	doc := rendered(t, filepath.Join(dir, "rnr.html"), `{
const key = (to, k) => to.dispatchEvent(new KeyboardEvent("keydown", { key: k, bubbles: true }));
const said = [], pic = () => on.querySelector(".queues").textContent;
on.querySelector(".look").open = true; const list = on.querySelector(".ladder");
key(list, "Home"); said.push(pic()); key(list, "End"); said.push(pic());
key(document.body, "3"); said.push(on.id + " " + on.classList.contains("on") + " " + document.querySelectorAll(".run.on").length);
document.body.dataset.said = said.join("|"); }`)
	require.Contains(t, doc, `data-ready="yes"`, "a script failed")
	said := regexp.MustCompile(`data-said="([^"]*)"`).FindStringSubmatch(doc)
	require.NotNil(t, said, "the probe failed")
	parts := strings.Split(said[1], "|")
	require.Contains(t, parts[0], "Host A: RTSSQSEND 64 BRQemptyCQempty")
	require.Contains(t, parts[1], "Host A: RTSSQemptyRQemptyCQcompletion")
	require.Contains(t, parts[1], "Host B: RTSSQemptyRQemptyCQcompletion")
	require.Equal(t, "run2 true 1", parts[2])

	names := []string{"index", "words"}
	for _, l := range everything() {
		names = append(names, l.name)
	}
	doc = rendered(t, filepath.Join(dir, "index.html"), fmt.Sprintf(`(async () => { const wide = []; let n = 0;
const f = document.createElement("iframe"); f.width = 360; f.height = 700; document.body.append(f);
for (const name of %q.split(" ")) { await new Promise(done => { f.onload = done; f.src = name + ".html"; });
  const d = f.contentDocument; d.querySelectorAll("details").forEach(x => x.open = true); n++;
  if (d.documentElement.scrollWidth > 360) wide.push(name + " " + d.documentElement.scrollWidth); }
document.body.dataset.wide = n + ":" + wide.join(", "); })()`, strings.Join(names, " ")))
	m := regexp.MustCompile(`data-wide="([^"]*)"`).FindStringSubmatch(doc)
	require.NotNil(t, m, "the probe failed")
	require.Equal(t, fmt.Sprintf("%d:", len(names)), m[1], "pages that are wider than a phone")
}
