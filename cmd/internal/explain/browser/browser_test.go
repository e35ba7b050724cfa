// Package browser tests the page of roce explain in Chromium. It is a module of its own for what it
// takes to drive one.
package browser

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/goroce/goroce/cmd/internal/explain"
	"github.com/goroce/goroce/cmd/internal/lesson"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/stretchr/testify/require"
)

const captures = "../../../../ib/testdata/captures/"

var shots = flag.String("shots", "", "folder for screenshots")

// chromium is the program, and a browser that all tests share.
var chromium = sync.OnceValues(func() (string, context.Context) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			// As root Chromium runs only without its sandbox; the pages are our own.
			opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
				chromedp.NoSandbox, chromedp.WSURLReadTimeout(2*time.Minute))
			alloc, _ := chromedp.NewExecAllocator(context.Background(), opts...)
			ctx, cancel := chromedp.NewContext(alloc)
			stop = cancel
			if err := chromedp.Do(ctx); err != nil {
				panic(err)
			}
			return path, ctx
		}
	}
	return "", nil
})

var stop = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	stop()
	os.Exit(code)
}

// tab is a page that is open.
type tab struct {
	context.Context
	t        *testing.T
	mu       sync.Mutex
	errors   []string // of scripts, and of the policy that forbids what was injected
	requests []string
	blocked  map[network.RequestID]bool // by the policy
	ids      []network.RequestID        // of requests
}

// view is how a page is looked at.
type view struct {
	width, height int64
	dark, touch   bool
}

var (
	desk     = view{width: 1400, height: 900}
	darkDesk = view{width: 1400, height: 900, dark: true}
	phone    = view{width: 360, height: 740, touch: true}
)

func (v view) String() string {
	return fmt.Sprintf("%d%s", v.width, map[bool]string{true: "-dark"}[v.dark])
}

// open opens a page and waits until its script has run.
func open(t *testing.T, html []byte, hash string, v view) *tab {
	t.Helper()
	program, parent := chromium()
	if program == "" {
		t.Skip("no Chromium is installed (Debian: apt install chromium): the page is not rendered")
	}
	path := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, os.WriteFile(path, html, 0o644))
	u := url.URL{Scheme: "file", Path: path, Fragment: hash}
	ctx, cancel := chromedp.NewContext(parent)
	t.Cleanup(cancel)
	b := &tab{Context: ctx, t: t, blocked: map[network.RequestID]bool{}}
	require.NoError(t, chromedp.Listen(ctx, func(e any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := e.(type) {
		case *runtime.EventExceptionThrown:
			b.errors = append(b.errors, (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
		case *runtime.EventConsoleAPICalled:
			b.errors = append(b.errors, fmt.Sprint(e.Type, " ", e.Args))
		case *network.EventRequestWillBeSent:
			b.requests, b.ids = append(b.requests, e.Request.URL), append(b.ids, e.RequestID)
		case *network.EventLoadingFailed:
			b.blocked[e.RequestID] = e.BlockedReason == network.BlockedReasonCsp
		}
	}))
	scheme := "light"
	if v.dark {
		scheme = "dark"
	}
	b.run(chromedp.Func(func(ctx context.Context, tg *chromedp.Target) error {
		if _, err := cdp.Call(ctx, tg, network.Enable, network.EnableParams{}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, tg, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
	if v.touch {
		b.run(chromedp.EmulateViewport(v.width, v.height, chromedp.EmulateTouch))
	} else {
		b.run(chromedp.EmulateViewport(v.width, v.height))
	}
	b.run(chromedp.Navigate(u.String()), chromedp.WaitReady(chromedp.CSS(`body[data-ready="yes"]`)))
	return b
}

func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b, actions...); err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		require.NoError(b.t, err, "scripts said %q", b.errors)
	}
}

// eval runs a script and returns what it returns.
func eval[T any](b *tab, script string) T {
	b.t.Helper()
	out, err := chromedp.Run(b.Context, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, script)
	return out
}

// clean checks that no script failed and nothing was asked for but the page.
func (b *tab) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(b.t, b.errors)
	require.Len(b.t, b.requests, 1, "%q", b.requests)
}

func (b *tab) shoot(name string) {
	if *shots == "" {
		return
	}
	png, err := chromedp.Run(b.Context, chromedp.FullScreenshot(100))
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(*shots, name+".png"), png, 0o644))
}

// command runs a subcommand that writes a page.
func command(t *testing.T, c tool.Command, args ...string) []byte {
	t.Helper()
	var out, errs bytes.Buffer
	require.NoError(t,
		c.Run(t.Context(), &tool.Env{Stdout: &out, Stderr: &errs}, append([]string{"--html"}, args...)), errs.String())
	return out.Bytes()
}

// pages are those that the tests look at.
func pages(t *testing.T) map[string][]byte {
	t.Helper()
	return map[string][]byte{
		"clean":     command(t, explain.Command(), captures+"rping.pcap"),
		"losses":    command(t, explain.Command(), captures+"rc_pingpong_loss.pcap"),
		"datagrams": command(t, explain.Command(), captures+"ud_pingpong.pcap"),
		"part":      command(t, explain.Command(), "--last", "30", captures+"rc_pingpong_loss.pcap"),
		"lesson":    command(t, lesson.Command(), "loss"),
		"both": command(t, explain.Command(),
			"../../../../conformance/captures/testdata/lost-ACK/goroce-to-rxe-6.1.requester.pcapng",
			"../../../../conformance/captures/testdata/lost-ACK/goroce-to-rxe-6.1.responder.pcapng"),
		"congestion": command(t, lesson.Command(), "congestion"),
	}
}

// What a person does: the first finding is there with its packets, a click and a key go to others,
// a link to a packet.
func TestFindings(t *testing.T) {
	html := pages(t)["losses"]
	b := open(t, html, "", desk)
	selected := func() string { return eval[string](b, `document.querySelector("#space .sel .l").textContent.trim()`) }
	require.Equal(t, 23, eval[int](b, `document.querySelectorAll(".finding").length`))
	require.Regexp(t, `^4 `, selected(), "the first finding's packet")
	require.Contains(t, eval[string](b, `document.querySelector("#ladder").textContent`),
		"NAK PSN sequence error 6042660")
	require.Contains(t, eval[string](b, `document.querySelector("#ladder .ghost").textContent`),
		"request 6042660 — probably lost before it came here")
	require.Equal(t, "ladder", eval[string](b, `document.activeElement.id`))
	b.run(chromedp.KeyEvent("n"))
	require.Regexp(t, `^21 `, selected())
	b.run(chromedp.KeyEvent("p"), chromedp.KeyEvent("j"))
	require.Regexp(t, `^5 `, selected())
	require.Equal(t, "option", eval[string](b,
		`document.getElementById(document.querySelector("#ladder").getAttribute("aria-activedescendant")).getAttribute("role")`))
	b.run(chromedp.Click(chromedp.CSS(`#f2`)))
	require.Regexp(t, `^33 `, selected())
	b.run(chromedp.Click(chromedp.CSS(`#f2 a:last-of-type`)))
	require.Regexp(t, `^39 `, selected())
	b.run(chromedp.KeyEvent("\r"))
	require.Contains(t, eval[string](b, `document.querySelector("#sheet").innerText`), "6042669 (0x5c342d)")
	b.run(chromedp.KeyEvent("\x1b"))
	require.True(t, eval[bool](b, `document.querySelector("#sheet").hidden`))
	// A kind alone, and what went wrong alone.
	b.run(chromedp.Click(chromedp.CSS(`#kinds button:nth-child(2)`)))
	require.Equal(t, 1, eval[int](b, `document.querySelectorAll(".finding").length`))
	b.run(chromedp.Click(chromedp.CSS(`#only`)))
	require.Less(t, eval[int](b, `document.querySelector("#space").clientHeight`), 20*300)
	b.clean()

	b = open(t, html, "packet=600", desk)
	require.Regexp(t, `^600 `, selected())
	eval[any](b, `location.hash = "#packet=77"; new Promise(r => setTimeout(r))`)
	require.Regexp(t, `^77 `, selected())
	b.clean()
}

// With the keyboard alone everything can be reached, and what has the focus shows it.
func TestKeyboard(t *testing.T) {
	b := open(t, pages(t)["lesson"], "", desk)
	eval[any](b, `document.activeElement.blur()`)
	seen := map[string]bool{}
	for range 30 {
		b.run(chromedp.KeyEvent("\t"))
		seen[eval[string](b,
			`document.activeElement.id || document.activeElement.className || document.activeElement.tagName`)] = true
		require.NotEqual(t, "none", eval[string](b,
			`document.activeElement === document.body ? "" : getComputedStyle(document.activeElement).outlineStyle`),
			"%v", seen)
	}
	for _, want := range []string{"ladder", "pick", "only", "scale", "BUTTON", "A", "SUMMARY"} {
		require.True(t, seen[want], "%s of %v", want, seen)
	}
}

// Lost packets end on the way, with a cross; so they do when time is to scale.
func TestCrosses(t *testing.T) {
	b := open(t, pages(t)["lesson"], "", desk)
	// Of the row of the lost packet: how far the cross is from the sender, of the lane's width.
	far := eval[float64](b,
		`(() => { const l = document.querySelector("#space .sel .lane"), u = l.querySelector("u"), a = l.getBoundingClientRect(), c = u.getBoundingClientRect(); return (c.left - a.left) / a.width; })()`)
	require.InDelta(t, .8, far, .12)
	require.Equal(t, 1, eval[int](b, `document.querySelectorAll("#space u").length`))
	lanes := eval[int](b, `document.querySelectorAll("#space .lane").length`)
	require.Greater(t, lanes, 15)
	require.Equal(t, lanes-1, eval[int](b, `document.querySelectorAll("#space .lane > b").length`), "the others arrive")
	b.run(chromedp.KeyEvent("t"))
	require.Equal(t, 1, eval[int](b, `document.querySelectorAll(".sky .x").length`))
	b.shoot("scale")
	b.clean()
}

// When time is to scale, packets twice as far apart in time are so on the page.
func TestTimeToScale(t *testing.T) {
	b := open(t, pages(t)["clean"], "", desk)
	b.run(chromedp.Click(chromedp.CSS("#scale")))
	type point struct{ Y, Ns float64 }
	script := `(() => { const D = JSON.parse(document.getElementById("data").textContent), out = [];
		for (const d of document.querySelectorAll("#space [data-k]")) { const n = d.querySelector(".n"); if (n) out.push({Y: parseFloat(d.style.top), Ns: D.rows.find(r => r[0] === +n.textContent)[1]}); } return out; })()`
	// Between breaks all have one ratio: each two neighbours stand apart by time, or by less as the
	// pause is cut.
	ratio := func(all []point) (most float64) {
		require.Greater(t, len(all), 5)
		for i := 1; i < len(all); i++ {
			require.GreaterOrEqual(t, all[i].Y, all[i-1].Y)
			if d := all[i].Ns - all[i-1].Ns; d > 0 {
				most = max(most, (all[i].Y-all[i-1].Y-1)/d)
			}
		}
		return most
	}
	before := ratio(eval[[]point](b, script))
	rule := eval[string](b, `document.querySelector("#rule").textContent`)
	require.Regexp(t, `^[\d.]+ (ns|µs|ms|s)$`, rule)
	b.run(chromedp.Click(chromedp.CSS("#in")))
	require.InDelta(t, 2, ratio(eval[[]point](b, script))/before, .5)
	b.shoot("scale-clean")
	b.clean()
}

// Nothing is wider than the window.
func TestNoSidewaysScrolling(t *testing.T) {
	for name, html := range pages(t) {
		for _, width := range []int64{320, 360, 414, 600, 601, 800, 801, 1024} {
			b := open(t, html, "", view{width: width, height: 700, touch: width < 700})
			for _, scaled := range []bool{false, true} {
				require.LessOrEqual(t, eval[int64](b, `document.scrollingElement.scrollWidth`), width,
					"%s at %d, scaled %v", name, width, scaled)
				for _, id := range []string{"side", "ladder", "findings", "bar", "charts"} {
					require.LessOrEqual(t, eval[int](b, `document.getElementById("`+id+
						`").scrollWidth - document.getElementById("`+id+`").clientWidth`), 0,
						"#%s of %s at %d, scaled %v", id, name, width, scaled)
				}
				eval[any](b, `document.getElementById("scale").click()`)
			}
			b.clean()
		}
	}
}

// Each chart has axes with units, in words as well as in the picture.
func TestCharts(t *testing.T) {
	for name, html := range pages(t) {
		for _, v := range []view{desk, darkDesk, phone} {
			b := open(t, html, "", v)
			labels := eval[[]string](b,
				`[...document.querySelectorAll("#charts canvas[role=img]")].map(c => c.getAttribute("aria-label"))`)
			require.GreaterOrEqual(t, len(labels), 3, name)
			for _, l := range labels {
				require.Regexp(t, `from .+ to .+ (PSN.*|packets|.b/s|ns|µs|ms|s)$`, l)
			}
			// Each is as large as its place, and something is drawn in it.
			require.True(t, eval[bool](b, `[...document.querySelectorAll("#charts canvas[role=img]")].every(c => c.width === c.clientWidth && c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some(x => x))`))
			b.shoot(name + "-" + v.String())
			b.clean()
		}
	}
}

// repeated is a pcap file with the packets of another one until there are n, a second after the
// other: new PSNs would need new ICRCs, and the page does not mind.
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

// Of 100,000 packets the page holds only the rows that are seen, at each width and wherever it is
// scrolled to.
func TestManyPackets(t *testing.T) {
	const n = 100_000
	var html bytes.Buffer
	require.NoError(t, explain.Page(&html, "many", bytes.NewReader(repeated(t, n))))
	for _, v := range []view{desk, {width: 800, height: 900}, phone} {
		for _, scaled := range []bool{false, true} {
			b := open(t, html.Bytes(), fmt.Sprintf("packet=%d", n-10), v)
			loaded := eval[float64](b, `performance.getEntriesByType("navigation")[0].domComplete`)
			start := time.Now()
			if scaled {
				eval[any](b, `document.getElementById("scale").click()`)
			}
			switched := time.Since(start)
			r := eval[struct {
				Most, Steps int
				Slow        float64
			}](b, `(async () => { const box = document.getElementById("ladder"); let Most = 0, Slow = 0, Steps = 0;
				for (let y = 0; y < box.scrollHeight; y += Math.max(box.clientHeight * 1.5, box.scrollHeight / 150)) { const t = performance.now(); box.scrollTop = y; box.onscroll();
					await new Promise(r => requestAnimationFrame(() => r())); Slow = Math.max(Slow, performance.now() - t); Most = Math.max(Most, document.querySelectorAll("#space .row").length); Steps++; }
				return { Most, Steps, Slow }; })()`)
			require.Less(t, r.Most, 200, "rows in the document at %v", v)
			require.Greater(t, r.Steps, 100)
			t.Logf("%v, scaled %v: %.1f MB of page, loaded in %.0f ms, time to scale after %.0f ms; at most %d rows in the document; slowest of %d steps %.0f ms",
				v, scaled, float64(html.Len())/1e6, loaded, float64(switched.Microseconds())/1e3, r.Most,
				r.Steps, r.Slow)
			b.clean()
		}
	}
}

// hostileStrings puts markup into each string of the page's data: what a capture may bring.
func hostileStrings(t *testing.T, html []byte) []byte {
	t.Helper()
	before, rest, ok := bytes.Cut(html, []byte(`id="data">`))
	require.True(t, ok)
	data, after, ok := bytes.Cut(rest, []byte("</script>"))
	require.True(t, ok)
	var v any
	require.NoError(t, json.Unmarshal(data, &v))
	const bad = `<img src=x onerror="window.pwned=1">'"><script>window.pwned=1</script><a href="javascript:pwned=1" onmouseover=pwned=1>&lt;`
	var change func(any) any
	change = func(v any) any {
		switch v := v.(type) {
		case string:
			return v + bad
		case []any:
			for i := range v {
				v[i] = change(v[i])
			}
		case map[string]any:
			for k := range v {
				v[k] = change(v[k])
			}
		}
		return v
	}
	out, err := json.Marshal(change(v))
	require.NoError(t, err)
	return bytes.Join([][]byte{before, []byte(`id="data">`), out, []byte("</script>"), after}, nil)
}

// Nothing in a capture runs, or becomes an element.
func TestInjection(t *testing.T) {
	for name, html := range pages(t) {
		b := open(t, hostileStrings(t, html), "", desk)
		b.run(chromedp.KeyEvent("n"), chromedp.KeyEvent("\r"), chromedp.KeyEvent("t"))
		eval[any](b, `onbeforeprint()`)
		require.Equal(t, 0, eval[int](b, `document.querySelectorAll("img, body script:not([type]) ~ script, a[href^=javascript], [onmouseover], [onerror]").length`), name)
		require.True(t, eval[bool](b, `window.pwned === undefined`), name)
		require.Contains(t, eval[string](b, `document.body.innerText`), "<img src=x", "the text is there, as text")
		b.clean()
	}
}

// What would get into the page all the same could not run, and could not ask for anything.
func TestPolicy(t *testing.T) {
	html := pages(t)["clean"]
	html = bytes.Replace(html, []byte("<main>"),
		[]byte(`<main><script>window.pwned=1</script><img src="https://192.0.2.1/x.png" onerror="window.pwned=2">`), 1)
	b := open(t, html, "", desk)
	// Which is behind the other one.
	eval[any](b, `new Promise(r => { const i = new Image(); i.onerror = i.onload = r; i.src = "data:,"; })`)
	require.True(t, eval[bool](b, `window.pwned === undefined`))
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Len(t, b.requests, 3)
	require.True(t, b.blocked[b.ids[1]], "the policy lets nothing out")
}

// A damaged capture makes a page, too, if it makes one.
func TestDamagedCaptures(t *testing.T) {
	file, err := os.ReadFile(captures + "rping.pcap")
	require.NoError(t, err)
	for seed := range 12 {
		bad := bytes.Clone(file)
		for i, x := 0, uint64(seed)*0x9e3779b97f4a7c15+1; i < 200; i++ {
			x = x*6364136223846793005 + 1442695040888963407
			at := 40 + int(x>>33)%(len(bad)-40)
			if record := (at - 24) % 100; record > 16 { // mostly inside of packets
				bad[at] = byte(x >> 20)
			}
		}
		var html bytes.Buffer
		if explain.Page(&html, "damaged", bytes.NewReader(bad)) != nil {
			continue
		}
		b := open(t, html.Bytes(), "", desk)
		b.run(chromedp.KeyEvent("t"), chromedp.KeyEvent("j"))
		b.clean()
	}
}

// axe returns axe-core, which npm fetches.
var axe = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "axe")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"package.json", "package-lock.json"} {
		b, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w: %s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "node_modules/axe-core/axe.min.js"))
	return string(b), err
})

// axe-core finds nothing: contrast, names, roles, the order of headings, what cannot be reached.
func TestAccessibility(t *testing.T) {
	script, err := axe()
	if err != nil {
		t.Skipf("axe-core is not to be had here (%v): accessibility is not checked", err)
	}
	check := func(b *tab) []string {
		return eval[[]string](b,
			`axe.run({ resultTypes: ["violations"] }).then(r => r.violations.map(v => v.id + ": " + v.help + ": " + v.nodes.slice(0, 4).map(n => n.html.slice(0, 200) + " " + n.failureSummary).join(" | ")))`)
	}
	for name, html := range pages(t) {
		for _, v := range []view{desk, {width: 360, height: 740, dark: true, touch: true}, darkDesk, phone} {
			b := open(t, html, "", v)
			eval[any](b, script)
			for _, state := range []string{``, `document.getElementById("scale").click()`,
				`document.getElementById("ladder").dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true}))`} {
				if state != "" {
					eval[any](b, state)
				}
				for _, violation := range check(b) {
					t.Errorf("%s, %v, %q: %s", name, v, state, violation)
				}
				if name != "losses" {
					break // what opens looks the same on all
				}
			}
			eval[any](b, `document.getElementById("title").style.color = getComputedStyle(document.body).getPropertyValue("--line")`)
			require.Len(t, check(b), 1, "a contrast that is too low is found")
		}
	}
}

// onPaper returns the text of the printed page, a string a page, as pdftotext sees it.
func onPaper(t *testing.T, html []byte) []string {
	t.Helper()
	b := open(t, html, "", desk)
	totext, err := exec.LookPath("pdftotext")
	if err != nil {
		t.Skip("no pdftotext is installed (Debian: apt install poppler-utils): what is printed is not read")
	}
	pdf, err := chromedp.Run(b.Context, chromedp.PrintToPDF(chromedp.PDFPreferCSSPageSize()))
	require.NoError(t, err)
	if *shots != "" {
		require.NoError(t,
			os.WriteFile(filepath.Join(*shots, strings.ReplaceAll(t.Name(), "/", "-")+".pdf"), pdf, 0o644))
	}
	b.clean()
	cmd := exec.CommandContext(t.Context(), totext, "-layout", "-", "-")
	cmd.Stdin = bytes.NewReader(pdf)
	text, err := cmd.Output()
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(text), "\f"), "\f")
}
