package lesson

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goroce/goroce/cmd/internal/explain"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/analyse/stage"
)

// siteFiles are the templates of the pages, their style and their script.
//
//go:embed site
var siteFiles embed.FS

var siteTemplates = template.Must(template.New("").Funcs(template.FuncMap{
	"linked": linked, "anchor": anchor, "lesson": find, "gap": gapText,
	"us": func(ns int64) string { return fmt.Sprintf("%.1f", float64(ns)/1000) },
}).
	ParseFS(siteFiles, "site/*.html"))

// sitePage is a page of one lesson, exercise or capture.
type sitePage struct {
	*lesson
	Name, Title, Text string
	After             []string
	Kind              string // "Lesson 3", "Exercise", "Capture"
	Ask               string // before the reader looks
	Prev, Next        string
	Runs              []siteRun
}

// siteRun is a run with some numbers, as a page shows it.
type siteRun struct {
	Numbers          string // "lost=7"; empty as the lesson has them
	Params           []siteParam
	View             stage.View
	Rungs            []rung
	Left             []int // rungs that are left out before each of these
	Hidden, Pictured bool
	Queues           [][2]*siteQueues // after each of Rungs
	Said             []string
	Findings         []*analyse.Finding
	Answers          []siteAnswer
	Choice, Verdict  string
	Right            bool
	Chart            template.HTML
	Capture, Packets string // files
}

type siteParam struct {
	Name, Help string
	Value      int
}

type siteAnswer struct{ Ask, Answer string }

// siteQueues is a state as the script reads it.
type siteQueues struct {
	Sends []string `json:"s"` // the oldest first
	Sent  int      `json:"t"`
	Recvs int      `json:"r"`
	Done  int      `json:"c"`
	State string   `json:"q"`
}

// writeSite writes all lessons as files that need no server.
func writeSite(dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, "packets"), 0o755); err != nil {
		return err
	}
	for _, name := range []string{"lesson.css", "lesson.js"} {
		b, err := siteFiles.ReadFile("site/" + name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return err
		}
	}
	all := everything()
	for i := range all {
		p := &sitePage{lesson: &all[i], Name: all[i].name, Title: all[i].title, Text: all[i].text, After: all[i].after}
		switch n := len(lessons()); {
		case i < n:
			p.Kind, p.Ask = fmt.Sprintf("Lesson %d of %d", i+1, n), p.questions[0].ask
		case p.choices == nil:
			p.Kind = "Exercise"
		default:
			p.Kind = "Quiz"
		}
		if i > 0 {
			p.Prev = all[i-1].name
		}
		if i < len(all)-1 {
			p.Next = all[i+1].name
		}
		if err := p.perform(dir); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if err := writePage(dir, p.name+".html", "lesson.html", p); err != nil {
			return err
		}
	}
	if err := writePage(dir, "words.html", "words.html", words); err != nil {
		return err
	}
	return writePage(dir, "index.html", "index.html", struct {
		Parts           []part
		Exercises, Quiz []lesson
	}{parts(), exercises(), quiz()})
}

func writePage(dir, file, name string, data any) error {
	var b bytes.Buffer
	if err := siteTemplates.ExecuteTemplate(&b, name, data); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, file), b.Bytes(), 0o644)
}

// perform plays the lesson as it is, and with each of its other numbers.
func (p *sitePage) perform(dir string) error {
	numbers := append([]string{""}, p.tries...)
	var choices []string
	if p.choices != nil {
		v, err := p.values(nil)
		if err != nil {
			return err
		}
		choices = p.choices(v)
		for i := range choices {
			numbers = append(numbers, fmt.Sprintf("answer=%d", i+1))
		}
	}
	for i, args := range numbers {
		v, err := p.values(strings.Fields(args))
		if err != nil {
			return err
		}
		r, err := p.lesson.perform(v)
		if err != nil {
			return err
		}
		run, err := r.site(args)
		if err != nil {
			return err
		}
		if i > 0 && choices != nil {
			run.Choice = choices[i-1]
		}
		file := fmt.Sprintf("packets/%s-%d", p.name, i)
		capture := r.s.Capture(p.viewOf(v))
		run.Capture = file + ".pcapng.gz"
		err = writeFile(filepath.Join(dir, run.Capture), func(w io.Writer) error {
			z := gzip.NewWriter(w)
			if _, err := z.Write(capture); err != nil {
				return err
			}
			return z.Close()
		})
		if err != nil {
			return err
		}
		if !run.Hidden {
			run.Packets = file + ".html"
			err := writeFile(filepath.Join(dir, run.Packets), func(w io.Writer) error {
				return explain.Page(w, strings.TrimSpace("roce lesson "+p.name+" "+args), bytes.NewReader(capture))
			})
			if err != nil {
				return err
			}
		}
		p.Runs = append(p.Runs, *run)
	}
	return nil
}

func writeFile(name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}

// site is what a page shows of a run.
func (r *run) site(numbers string) (*siteRun, error) {
	rungs, report, err := r.ladder()
	if err != nil {
		return nil, err
	}
	s := &siteRun{Numbers: numbers, View: r.l.viewOf(r.v), Said: r.said, Pictured: r.pictured()}
	for _, p := range r.l.params {
		s.Params = append(s.Params, siteParam{p.name, p.help, r.v[p.name]})
	}
	s.Hidden, s.Verdict = r.verdict()
	if r.unanswered {
		s.Verdict = ""
	}
	s.Right = strings.HasPrefix(s.Verdict, "Right")
	if !s.Hidden {
		s.Findings = report.Findings
	}
	s.Rungs, s.Left = shown(rungs, s.Hidden)
	for i := range s.Rungs {
		g := &s.Rungs[i]
		if s.Hidden {
			g.lost, g.note = false, ""
		}
		s.Queues = append(s.Queues,
			[2]*siteQueues{queuesOf(r.s.Hosts[0], g.queues[0]), queuesOf(r.s.Hosts[1], g.queues[1])})
	}
	for _, q := range r.l.questions {
		s.Answers = append(s.Answers, siteAnswer{q.ask, q.answer(r)})
	}
	if r.l.chart {
		if s.Chart, err = r.svg(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func queuesOf(h *stage.Host, s *stage.State) *siteQueues {
	if s == nil {
		return nil
	}
	q := &siteQueues{Sent: s.Sent, Recvs: s.Recvs, Done: s.Completions, State: s.QP.String(), Sends: []string{}}
	for i := range s.Sends {
		name := "request"
		if at := s.Posted - s.Sends + i; at >= 0 && at < len(h.Posted) {
			name = h.Posted[at]
		}
		q.Sends = append(q.Sends, name)
	}
	return q
}

// The fields of a rung, for the templates.
func (g rung) Frame() int   { return g.frame }
func (g rung) AtNs() int64  { return g.atNs }
func (g rung) What() string { return g.what }
func (g rung) Note() string { return g.note }
func (g rung) A() string    { return strings.TrimSpace(counts(g.queues[0])) }
func (g rung) B() string    { return strings.TrimSpace(counts(g.queues[1])) }
func (g rung) Class() string {
	c := "toB"
	if !g.fromA {
		c = "toA"
	}
	for _, x := range []struct {
		on   bool
		name string
	}{{g.lost, "lost"}, {strings.HasPrefix(g.note, "again"), "again"}, {g.answer, "answer"}, {g.ce, "ce"}} {
		if x.on {
			c += " " + x.name
		}
	}
	return c
}

func (l lesson) Words() []string { return wordsIn(&l) }
func (l lesson) Name() string    { return l.name }
func (l lesson) Title() string   { return l.title }
func (p part) Title() string     { return p.title }
func (p part) First() (n int) { // the number of its first lesson
	for _, q := range parts() {
		if q.title == p.title {
			break
		}
		n += len(q.lessons)
	}
	return n + 1
}
func (p part) Lessons() []lesson   { return p.lessons }
func (w word) Name() string        { return w.name }
func (w word) Also() string        { return strings.Join(w.also, ", ") }
func (w word) Text() string        { return w.text }
func (w word) Lesson() string      { return w.lesson }
func anchor(term string) string    { return strings.ReplaceAll(strings.ToLower(term), " ", "-") }
func plain(s string) template.HTML { return template.HTML(template.HTMLEscapeString(s)) }

// linked is a text with a link to the glossary from every term.
func linked(text string) template.HTML {
	var b strings.Builder
	at := 0
	for _, m := range terms.FindAllStringIndex(text, -1) {
		b.WriteString(string(plain(text[at:m[0]])))
		fmt.Fprintf(&b, `<a class="word" href="words.html#%s">%s</a>`,
			template.HTMLEscapeString(anchor(findWord(text[m[0]:m[1]]).name)), plain(text[m[0]:m[1]]))
		at = m[1]
	}
	b.WriteString(string(plain(text[at:])))
	return template.HTML(b.String())
}

// svg draws the curves of a run.
func (r *run) svg() (template.HTML, error) {
	const w, h, left, n = 640, 90, 70, 160
	var b strings.Builder
	all, err := r.curves(n)
	if err != nil {
		return "", err
	}
	for _, s := range all {
		title := fmt.Sprintf("%s, %s, over %.0f us: at most %.0f", s.name, s.unit, r.us(), slices.Max(s.values))
		fmt.Fprintf(&b, `<figure><figcaption>%s</figcaption><svg viewBox="0 0 %d %d" role="img" aria-label="%s">`,
			plain(title), w, h+20, plain(title))
		fmt.Fprintf(&b, `<text x="%d" y="12" text-anchor="end">%.0f</text><text x="%d" y="%d" text-anchor="end">0</text><text x="%d" y="%d">0 us</text><text x="%d" y="%d" text-anchor="end">%.0f us</text>`,
			left-6, s.top, left-6, h, left, h+16, w, h+16, r.us())
		fmt.Fprintf(&b, `<path class="axis" d="M%d 2V%dH%d"/><path class="curve" d="M`, left, h, w)
		for i, v := range s.values {
			x, y := float64(left)+float64(w-left)*float64(i)/(n-1), float64(h)-v/s.top*(h-4)
			fmt.Fprintf(&b, "%.1f %.1f ", x, y)
		}
		b.WriteString(`"/></svg></figure>`)
	}
	return template.HTML(b.String()), nil
}
