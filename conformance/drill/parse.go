package drill

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goroce/goroce/ib"
)

// Parse reads a script, which must have a title and an authority. file is its name, for messages
// and as the name of the drill. The error is a *ParseError.
func Parse(file string, src []byte) (*Drill, error) {
	d, err := parse(file, src)
	top := place{file, 1, 1}
	switch {
	case err != nil:
		return nil, err
	case d.Title == "":
		return nil, errAt(top, "the title is missing: title TEXT")
	case len(d.Authority) == 0:
		return nil, errAt(top, "the authority is missing: clause TEXT, or seen rxe|connectx TEXT")
	}
	return d, nil
}

// parse is Parse for a script that may lack both.
func parse(file string, src []byte) (*Drill, error) {
	p := &parser{d: &Drill{Name: strings.TrimSuffix(file, ".drill"), File: file},
		names: map[string]objectKind{rxName: objMR, txName: objMR, "me": objVar, "guid": objVar, "myqpn": objVar}}
	top := place{file, 1, 1}
	if len(src) > maxScriptBytes {
		return nil, errAt(top, "a script has at most %d bytes", maxScriptBytes)
	}
	for i, l := range strings.Split(string(src), "\n") {
		w := words(file, i+1, l)
		if len(w) == 0 {
			continue
		}
		if err := p.line(w, l); err != nil {
			return nil, err
		}
	}
	if n := len(p.open); n > 0 {
		return nil, errAt(p.open[n-1].at, "repeat without end")
	}
	switch {
	case len(p.d.steps) == 0:
		return nil, errAt(top, "a drill has steps")
	case count(p.d.steps) > maxSteps:
		return nil, errAt(top, "more than %d steps with the loops unrolled", maxSteps)
	}
	return p.d, nil
}

// count returns the steps with loops unrolled.
func count(steps []step) (n int) {
	for _, s := range steps {
		n++
		if s.verb == "repeat" {
			n += min(maxSteps, s.to-s.from+1) * count(s.body)
		}
		if n > maxSteps {
			return n
		}
	}
	return n
}

type objectKind uint8

const (
	objQP objectKind = iota + 1
	objMR
	objWindow
	objVar
)

type parser struct {
	d     *Drill
	names map[string]objectKind
	qps   map[string]ib.Transport
	lastQ string
	open  []*step // repeats that have no end yet
}

// packetForm is what kind of packet a step is about.
type packetForm uint8

const (
	formNone packetForm = iota
	formIB
	formCM
	formNothing
)

// step is one line of a script.
type step struct {
	at   place
	text string // as written
	only []Profile
	not  []Profile

	verb string
	name string   // of the object made, or the loop's variable
	op   string   // words in capitals
	bare []string // words without a value
	args []arg

	form     packetForm
	opcode   ib.Opcode // > and <
	syndrome int       // -1 if the name does not tell
	maybe    bool      // <? may be absent
	many     bool      // <* any number

	from, to int
	body     []step
}

// arg is "key=value".
type arg struct {
	at      place
	key     string
	num     expr
	alts    []expr // "1|2": further values that are as good
	time    time.Duration
	data    dataSpec
	word    string
	capture string // "?name": a variable takes the value
}

func (s *step) arg(key string) *arg {
	for i := range s.args {
		if s.args[i].key == key {
			return &s.args[i]
		}
	}
	return nil
}

func (s *step) has(bare string) bool { return slices.Contains(s.bare, bare) }

// runs reports whether the step is for a profile.
func (s *step) runs(p Profile) bool {
	for _, q := range s.not {
		if p.is(q) {
			return false
		}
	}
	if len(s.only) == 0 {
		return true
	}
	for _, q := range s.only {
		if p.is(q) {
			return true
		}
	}
	return false
}

func (p *parser) line(w []word, text string) error {
	if done, err := p.head(w, text); done || err != nil {
		return err
	}
	s := step{at: w[0].at, text: strings.TrimSpace(text), syndrome: -1}
	var err error
	if w, err = s.selectors(w); err != nil {
		return err
	}
	if len(w) == 0 {
		return errAt(s.at, "a step is missing behind the profile")
	}
	if len(s.only)+len(s.not) > 0 {
		p.d.profiled = true
	}
	s.verb = w[0].text
	switch s.verb {
	case "end":
		if len(w) > 1 {
			return errAt(w[1].at, "nothing stands behind end")
		}
		if len(p.open) == 0 {
			return errAt(s.at, "end without repeat")
		}
		last := *p.open[len(p.open)-1]
		p.open = p.open[:len(p.open)-1]
		delete(p.names, last.name)
		return p.add(last)
	case "repeat":
		if err := p.repeat(&s, w[1:]); err != nil {
			return err
		}
		p.open = append(p.open, &s)
		return nil
	case ">", "<", "<?", "<*":
		err = p.packet(&s, w[1:])
	default:
		sc, ok := schemas[s.verb]
		if !ok {
			return errAt(w[0].at, "%q is no step: use one of %s", s.verb, oneOf(stepNames()))
		}
		err = p.plain(&s, &sc, w)
	}
	if err != nil {
		return err
	}
	return p.add(s)
}

func (p *parser) add(s step) error {
	if n := len(p.open); n > 0 {
		p.open[n-1].body = append(p.open[n-1].body, s)
		return nil
	}
	p.d.steps = append(p.d.steps, s)
	return nil
}

// selectors takes "[rxe]" or "[!rxe,goroce]" off a line.
func (s *step) selectors(w []word) ([]word, error) {
	for len(w) > 0 && strings.HasPrefix(w[0].text, "[") {
		t := w[0]
		if !strings.HasSuffix(t.text, "]") {
			return nil, errAt(t.at, "%q: a profile stands in brackets, as [rxe]", t.text)
		}
		list, no := strings.CutPrefix(t.text[1:len(t.text)-1], "!")
		for _, name := range strings.Split(list, ",") {
			q := Profile(name)
			if !q.known() {
				return nil, errAt(t.at, "%q is not a profile: use %s", name, allKnown)
			}
			if no {
				s.not = append(s.not, q)
			} else {
				s.only = append(s.only, q)
			}
		}
		w = w[1:]
	}
	return w, nil
}

// selectorsOff is the text of a step without the profiles before it.
func selectorsOff(text string) string {
	for strings.HasPrefix(text, "[") {
		_, text, _ = strings.Cut(text, "]")
		text = strings.TrimSpace(text)
	}
	return text
}

// repeat is "repeat i 0..9": i takes both ends, too.
func (p *parser) repeat(s *step, w []word) error {
	if len(w) != 2 {
		return errAt(s.at, "repeat VARIABLE FROM..TO")
	}
	if len(p.open) == maxNesting {
		return errAt(s.at, "loops are nested at most %d deep", maxNesting)
	}
	from, to, ok := strings.Cut(w[1].text, "..")
	a, err1 := strconv.Atoi(from)
	b, err2 := strconv.Atoi(to)
	if !ok || err1 != nil || err2 != nil || a < 0 || b < a || b-a >= maxSteps {
		return errAt(w[1].at, "%q is no range such as 0..9", w[1].text)
	}
	s.from, s.to, s.name = a, b, w[0].text
	return p.declare(w[0], objVar)
}

// declare gives a name a meaning.
func (p *parser) declare(w word, k objectKind) error {
	if !isName(w.text) {
		return errAt(w.at, "%q is not a name: small letters, digits and underscores", w.text)
	}
	if p.names[w.text] != 0 && (k != objVar || p.names[w.text] != objVar) {
		return errAt(w.at, "%s is there already", w.text)
	}
	p.names[w.text] = k
	return nil
}

// check finds names in an expression that mean nothing.
func (p *parser) check(e expr) error {
	return e.refs(func(name string, variable bool) error {
		k := p.names[name]
		switch {
		case variable && k != objVar:
			return errAt(e.at, "there is no variable $%s", name)
		case !variable && k != objMR && k != objWindow && k != objQP:
			return errAt(e.at, "there is no object %s", name)
		}
		return nil
	})
}

func (p *parser) num(w word) (expr, error) {
	e, err := parseExpr(w)
	if err != nil {
		return e, err
	}
	return e, p.check(e)
}

func (p *parser) data(w word) (dataSpec, error) {
	d, err := parseData(w)
	if err == nil {
		err = p.check(d.seed)
	}
	if err == nil {
		err = p.check(d.base)
	}
	return d, err
}

// transportOf is that of a named queue pair, or the first one's.
func (p *parser) transportOf(name string) ib.Transport {
	if name == "" {
		name = p.lastQ
	}
	return p.qps[name]
}

// The limits of numbers whose size matters for memory.
const (
	maxRegion  = 1 << 24
	maxPayload = 8192
)
