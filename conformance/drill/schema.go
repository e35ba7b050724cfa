package drill

import (
	"slices"
	"strings"

	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/ib"
)

// argKind is what stands behind "key=".
type argKind uint8

const (
	argNum  argKind = iota // an expression
	argTime                // 10ms
	argData                // seed:1@0
	argWord                // one of several words, or words joined by "+"
	argSpan                // an expression that is an address of the peer's memory
	argQP                  // the name of a queue pair
)

// schema is the form of a step.
type schema struct {
	object objectKind // what its name makes; 0 for steps without a name
	ops    []string   // the operations in capitals; nil if there are none
	bare   []string   // words without a value
	first  string     // key of a value that stands without one: "mem a+16"
	args   map[string]argKind
	needs  []string // keys that must be there
}

var (
	states  = []string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}
	workOps = []string{"SEND", "SEND IMM", "SEND INV", "WRITE", "WRITE IMM", "READ", "CMP_SWAP", "FETCH_ADD",
		"ATOMIC_WRITE", "FLUSH", "LOCAL_INV"}
	nothing  = "NOTHING"
	anything = "ANY" // status
	statuses = map[string]peer.Status{
		"SUCCESS": peer.Success, "LOC_LEN_ERR": peer.LocLenErr, "LOC_QP_OP_ERR": peer.LocQPOpErr,
		"LOC_PROT_ERR": peer.LocProtErr, "WR_FLUSH_ERR": peer.WRFlushErr,
		"MW_BIND_ERR": peer.MWBindErr, "BAD_RESP_ERR": peer.BadRespErr, "LOC_ACCESS_ERR": peer.LocAccessErr,
		"REM_INV_REQ_ERR": peer.RemInvReqErr, "REM_ACCESS_ERR": peer.RemAccessErr, "REM_OP_ERR": peer.RemOpErr,
		"RETRY_EXC_ERR": peer.RetryExcErr, "RNR_RETRY_EXC_ERR": peer.RNRRetryExcErr, "FATAL_ERR": peer.FatalErr,
	}
	accessNames = map[string]peer.Access{
		"none": 0, "local": peer.AccessLocalWrite, "write": peer.AccessRemoteWrite,
		"read": peer.AccessRemoteRead, "atomic": peer.AccessRemoteAtomic,
		"bind": peer.AccessMWBind, "flush": peer.AccessFlushGlobal, "persist": peer.AccessFlushPersistent,
	}
)

var schemas = map[string]schema{
	"qp": {object: objQP, bare: []string{"rc", "uc", "ud"}, args: map[string]argKind{
		"mtu": argNum, "state": argWord, "depth": argNum, "rd": argNum, "timeout": argNum, "retry": argNum,
		"rnr_retry": argNum, "rnr_timer": argNum, "rq_psn": argNum, "sq_psn": argNum, "access": argWord,
		"qkey": argNum, "recvs": argNum, "sends": argNum, "pd": argWord, "ip": argNum, "label": argNum,
	}},
	"mr": {object: objMR, first: "len",
		args: map[string]argKind{"len": argNum, "access": argWord, "pd": argWord}, needs: []string{"len"}},
	"window": {object: objWindow, first: "at",
		args:  map[string]argKind{"at": argSpan, "len": argNum, "access": argWord, "qp": argQP},
		needs: []string{"at", "len"}},
	"recv": {args: map[string]argKind{"len": argNum, "count": argNum, "into": argSpan, "id": argNum, "qp": argQP}},
	"post": {ops: workOps, bare: []string{"fence", "se", "unsignaled"}, args: map[string]argKind{
		"len": argNum, "local": argSpan, "va": argNum, "key": argNum, "imm": argNum, "inv": argNum,
		"add": argNum, "cmp": argNum, "swap": argNum, "value": argNum,
		"plt": argNum, "sel": argNum, "lkey": argNum, "id": argNum, "qp": argQP, "qkey": argNum, "qpn": argNum,
	}},
	"done": {ops: append(statusNames(), nothing, anything),
		bare: []string{"send", "recv", "imm", "noimm", "inv"}, args: map[string]argKind{
			"id": argNum, "len": argNum, "imm": argNum, "inv": argNum, "within": argTime, "for": argTime, "qp": argQP,
		}},
	"mem": {first: "at", args: map[string]argKind{"at": argSpan, "len": argNum, "data": argData},
		needs: []string{"at", "data"}},
	"fill": {first: "at", args: map[string]argKind{"at": argSpan, "len": argNum, "data": argData},
		needs: []string{"at", "data"}},
	"state":  {ops: states, args: map[string]argKind{"qp": argQP, "within": argTime}},
	"modify": {ops: states, bare: []string{"fails"}, args: map[string]argKind{"qp": argQP}},
	"dereg":  {first: "at", args: map[string]argKind{"at": argSpan}, needs: []string{"at"}},
	"wait":   {args: map[string]argKind{"for": argTime}, needs: []string{"for"}},
	"listen": {bare: []string{"rc", "ud"}},
	"uplink": {bare: []string{"open"}, args: map[string]argKind{"max": argNum}},
}

func statusNames() (names []string) {
	for n := range statuses {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// stepNames are the steps that begin with a word.
func stepNames() []string {
	names := []string{">", "<", "<?", "<*", "repeat", "end"}
	var more []string
	for n := range schemas {
		more = append(more, n)
	}
	slices.Sort(more)
	return append(names, more...)
}

// access reads "local+write"; "all" and "" are everything.
func access(w word) (peer.Access, error) {
	if w.text == "all" {
		return peer.AccessAll | peer.AccessMWBind | peer.AccessFlushGlobal, nil
	}
	var a peer.Access
	for _, n := range strings.Split(w.text, "+") {
		bits, ok := accessNames[n]
		if !ok {
			return 0, errAt(w.at,
				"%q is no right: use all, none, local, write, read, atomic, bind, flush or persist, joined by +", n)
		}
		a |= bits
	}
	return a, nil
}

// plain parses a step that begins with a word.
func (p *parser) plain(s *step, sc *schema, w []word) error {
	w = w[1:]
	for len(w) > 0 && w[0].isOpWord() {
		if s.op != "" {
			s.op += " "
		}
		s.op += w[0].text
		w = w[1:]
	}
	names := []string{s.op}
	if s.verb == "done" {
		names = strings.Split(s.op, "|")
	}
	bad := func(op string) bool { return !slices.Contains(sc.ops, op) }
	if (s.op != "" || sc.ops != nil) && slices.ContainsFunc(names, bad) {
		if sc.ops == nil {
			return errAt(s.at, "%s has no operation in capitals", s.verb)
		}
		return errAt(s.at, "%s what? one of %s", s.verb, oneOf(sc.ops))
	}
	if sc.object == objMR || sc.object == objWindow {
		if len(w) == 0 {
			return errAt(s.at, "%s of what name?", s.verb)
		}
		s.name = w[0].text
		if err := p.declare(w[0], sc.object); err != nil {
			return err
		}
		w = w[1:]
	}
	for _, x := range w {
		if err := p.plainWord(s, sc, x); err != nil {
			return err
		}
	}
	for _, key := range sc.needs {
		if s.arg(key) == nil {
			return errAt(s.at, "%s needs %s=", s.verb, key)
		}
	}
	return p.meaning(s)
}

func (p *parser) plainWord(s *step, sc *schema, x word) error {
	key, _, ok := strings.Cut(x.text, "=")
	if !ok {
		switch {
		case slices.Contains(sc.bare, x.text):
			s.bare = append(s.bare, x.text)
			return nil
		case sc.object == objQP && s.name == "" && len(s.bare) == 0 && isName(x.text):
			s.name = x.text
			return p.declare(x, objQP)
		case sc.first != "" && s.arg(sc.first) == nil:
			return p.value(s, sc.first, sc.args[sc.first], x)
		}
		return errAt(x.at, "%q means nothing in %s", x.text, s.verb)
	}
	k, known := sc.args[key]
	if !known {
		var all []string
		for n := range sc.args {
			all = append(all, n)
		}
		slices.Sort(all)
		return errAt(x.at, "%s has no %s=: it has %s", s.verb, key, oneOf(all))
	}
	if s.arg(key) != nil {
		return errAt(x.at, "%s= stands here twice", key)
	}
	return p.value(s, key, k, x.value(key))
}

// value parses what is behind a key.
func (p *parser) value(s *step, key string, k argKind, v word) (err error) {
	a := arg{at: v.at, key: key}
	switch k {
	case argNum, argSpan:
		one, rest, more := strings.Cut(v.text, "|")
		if more && s.verb[0] != '<' && s.verb != "done" {
			return errAt(v.at, "%q: only what is expected has alternatives", v.text)
		}
		for col := v.at.col + len(one) + 1; more; {
			var alt string
			alt, rest, more = strings.Cut(rest, "|")
			e, err := p.num(word{place{v.at.file, v.at.line, col}, alt})
			if err != nil {
				return err
			}
			a.alts = append(a.alts, e)
			col += len(alt) + 1
		}
		a.num, err = p.num(word{v.at, one})
		if err == nil && k == argSpan && (p.names[a.num.terms[0].ref] != objMR || a.num.terms[0].vr) {
			err = errAt(v.at, "%q does not begin with a region", v.text)
		}
	case argTime:
		a.time, err = parseTime(v)
	case argData:
		a.data, err = p.data(v)
	case argQP:
		if a.word = v.text; p.names[v.text] != objQP {
			err = errAt(v.at, "there is no queue pair %q", v.text)
		}
	case argWord:
		a.word = v.text
		switch key {
		case "access":
			_, err = access(v)
		case "state":
			if !slices.Contains(states, v.text) {
				err = errAt(v.at, "%q is no state: use one of %s", v.text, oneOf(states))
			}
		case "pd":
			if v.text != "other" {
				err = errAt(v.at, "%q: the only other domain is pd=other", v.text)
			}
		}
	}
	if err != nil {
		return err
	}
	s.args = append(s.args, a)
	return nil
}

// meaning checks what a step of a kind needs besides its form.
func (p *parser) meaning(s *step) error {
	switch s.verb {
	case "qp":
		if len(s.bare) != 1 {
			return errAt(s.at, "qp [NAME] rc|uc|ud")
		}
		if s.name == "" {
			s.name = "qp"
			if err := p.declare(word{s.at, s.name}, objQP); err != nil {
				return err
			}
		}
		if p.qps == nil {
			p.qps, p.lastQ = map[string]ib.Transport{}, s.name
		}
		p.qps[s.name] = map[string]ib.Transport{"rc": ib.RC, "uc": ib.UC, "ud": ib.UD}[s.bare[0]]
	case "listen":
		if len(s.bare) != 1 {
			return errAt(s.at, "listen rc|ud")
		}
		p.names["service"], p.names["port"] = objVar, objVar
	case "done":
		if !s.has("send") && !s.has("recv") {
			return errAt(s.at, "done STATUS send|recv")
		}
		if s.op == nothing && s.arg("for") == nil {
			return errAt(s.at, "done NOTHING needs for=TIME")
		}
		return p.needsQP(s)
	case "uplink":
		if s.has("open") == (s.arg("max") != nil) {
			return errAt(s.at, "uplink max=BYTES, or uplink open")
		}
	case "recv", "post", "state", "modify", "window":
		return p.needsQP(s)
	}
	return nil
}

func (p *parser) needsQP(s *step) error {
	if p.lastQ == "" {
		return errAt(s.at, "%s needs a queue pair: qp rc|uc|ud", s.verb)
	}
	return nil
}
