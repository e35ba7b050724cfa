package drill

import (
	"slices"
	"strings"
)

// Keys of packet steps that are not fields of the transport headers, by direction.
var (
	sendKeys = map[string]argKind{
		"len": argNum, "data": argData, "qp": argQP, "trim": argNum, "opcode": argNum, "tos": argNum, "grow": argNum,
	}
	expectKeys = map[string]argKind{
		"len": argNum, "data": argData, "qp": argQP, "within": argTime, "after": argTime, "for": argTime,
		"tos": argNum, "sport": argNum, "label": argNum,
	}
	sendBare   = []string{"ack", "noack", "stranger", "badicrc", "stdicrc"}
	expectBare = []string{"ack", "noack"}
)

// packet parses "> SEND ONLY psn=0" and the like.
func (p *parser) packet(s *step, w []word) error {
	var err error
	switch s.verb {
	case "<?":
		s.maybe = true
	case "<*":
		s.many = true
	}
	var names []string
	for len(w) > 0 && w[0].isOpWord() {
		names = append(names, w[0].text)
		w = w[1:]
	}
	s.op = strings.Join(names, " ")
	switch {
	case s.op == "":
		return errAt(s.at, "%s of what packet? as in: %s SEND ONLY psn=0", s.verb, s.verb)
	case s.op == nothing && s.verb == "<":
		s.form = formNothing
	case strings.HasPrefix(s.op, "CM "):
		if _, ok := cmMessages[s.op[3:]]; !ok {
			return errAt(s.at, "%q is no message: use one of %s", s.op[3:], oneOf(cmNames()))
		}
		s.form = formCM
	default:
		op, ok := opNames[s.op]
		if !ok {
			return errAt(s.at, "%q is no packet: use one of %s, or CM and a message", s.op, oneOf(packetNames()))
		}
		if p.lastQ == "" {
			return errAt(s.at, "%s %s needs a queue pair: qp rc|uc|ud", s.verb, s.op)
		}
		s.opcode, s.form = op, formIB
	}
	if s.op == "NAK" && (len(w) == 0 || nakCodes[w[0].text] == 0) {
		return errAt(s.at, "NAK sequence|invalid|access|operation")
	}
	if s.op == "NAK" {
		s.syndrome, w = int(nakCodes[w[0].text]), w[1:]
	}
	for _, x := range w {
		if err = p.packetWord(s, x); err != nil {
			return err
		}
	}
	if s.op == nothing && s.arg("for") == nil {
		return errAt(s.at, "< NOTHING needs for=TIME")
	}
	if s.form == formIB {
		name := ""
		if q := s.arg("qp"); q != nil {
			name = q.word
		}
		s.opcode = classOf(s.opcode, p.transportOf(name))
	}
	return p.fieldsOf(s)
}

func packetNames() (names []string) {
	for n := range opNames {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func (p *parser) packetWord(s *step, x word) error {
	keys, bare := expectKeys, expectBare
	if s.verb == ">" {
		keys, bare = sendKeys, sendBare
	}
	key, _, ok := strings.Cut(x.text, "=")
	if !ok {
		if !slices.Contains(bare, x.text) {
			return errAt(x.at, "%q means nothing here: use one of %s, or FIELD=VALUE", x.text, oneOf(bare))
		}
		s.bare = append(s.bare, x.text)
		return nil
	}
	if s.arg(key) != nil {
		return errAt(x.at, "%s= stands here twice", key)
	}
	v := x.value(key)
	if name, ok := strings.CutPrefix(v.text, "?"); ok && s.verb != ">" {
		if err := p.declare(word{place{v.at.file, v.at.line, v.at.col + 1}, name}, objVar); err != nil {
			return err
		}
		s.args = append(s.args, arg{at: v.at, key: key, capture: name})
		return nil
	}
	if k, ok := keys[key]; ok {
		return p.value(s, key, k, v)
	}
	return p.value(s, key, argNum, v)
}

// fieldsOf checks that a packet has the fields that a step names.
func (p *parser) fieldsOf(s *step) error {
	keys := expectKeys
	if s.verb == ">" {
		keys = sendKeys
	}
	for i := range s.args {
		a := &s.args[i]
		msg, isCM := strings.CutPrefix(s.op, "CM ")
		_, general := keys[a.key]
		switch {
		case s.op == nothing:
			if a.key != "for" && a.key != "qp" {
				return errAt(a.at, "NOTHING has no %s=", a.key)
			}
		case isCM && cmFieldOf(msg, a.key) != nil, general:
		case isCM:
			return errAt(a.at, "%s has no %s=: it has %s", s.op, a.key, oneOf(cmFieldNames(msg)))
		case fieldOf(a.key, s.opcode) == nil:
			return errAt(a.at, "%s has no %s=: it has %s", s.op, a.key, oneOf(fieldNames(s.opcode)))
		}
	}
	if s.verb == ">" && s.form == formIB && !s.opcode.Known() && s.arg("opcode") == nil {
		return errAt(s.at, "%s is no packet of %v", s.op, s.opcode>>5)
	}
	return nil
}
