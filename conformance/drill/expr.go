package drill

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// expr is a sum of products such as "a+$i*1024^1"; "^" is exclusive or, at the rank of "+". A name
// stands for the object of that name: its address, or its key in a field that is a key.
type expr struct {
	at    place
	terms []term
}

type term struct {
	op  byte // '+', '-', '*', '^'
	num uint64
	ref string // a variable ("$i" is "i" with vr set) or an object
	vr  bool
}

const exprOps = "+-*^"

// parseExpr reads an expression.
func parseExpr(w word) (expr, error) {
	e := expr{at: w.at}
	op, s, col := byte('+'), w.text, w.at.col
	if s == "" {
		return e, errAt(w.at, "a number is missing")
	}
	if s[0] == '-' {
		op, s, col = '-', s[1:], col+1
	}
	for {
		i := strings.IndexAny(s, exprOps)
		one := s
		if i >= 0 {
			one = s[:i]
		}
		at := place{w.at.file, w.at.line, col}
		t := term{op: op}
		switch {
		case one == "":
			return e, errAt(at, "a number is missing")
		case one[0] == '$':
			t.ref, t.vr = one[1:], true
			if !isName(t.ref) {
				return e, errAt(at, "%q is not a variable", one)
			}
		case isName(one):
			t.ref = one
		default:
			n, err := strconv.ParseUint(one, 0, 64)
			if err != nil {
				return e, errAt(at, "%q is neither a number nor a name", one)
			}
			t.num = n
		}
		e.terms = append(e.terms, t)
		if i < 0 {
			return e, nil
		}
		op, s, col = s[i], s[i+1:], col+i+1
	}
}

// refs calls use with each name of the expression.
func (e expr) refs(use func(name string, variable bool) error) error {
	for _, t := range e.terms {
		if t.ref != "" {
			if err := use(t.ref, t.vr); err != nil {
				return err
			}
		}
	}
	return nil
}

// eval computes the value; lookup knows the names.
func (e expr) eval(lookup func(name string, variable bool) (uint64, error)) (uint64, error) {
	var sum, product uint64
	op := byte('+') // of the product
	for i, t := range e.terms {
		n := t.num
		if t.ref != "" {
			var err error
			if n, err = lookup(t.ref, t.vr); err != nil {
				return 0, fmt.Errorf("%v: %w", e.at, err)
			}
		}
		if t.op == '*' {
			product *= n
			continue
		}
		if i > 0 {
			sum = combine(sum, op, product)
		}
		op, product = t.op, n
	}
	return combine(sum, op, product), nil
}

func combine(sum uint64, op byte, n uint64) uint64 {
	switch op {
	case '-':
		return sum - n
	case '^':
		return sum ^ n
	}
	return sum + n
}

// dataSpec is the contents of a payload or of memory.
type dataSpec struct {
	kind       dataKind
	seed, base expr // dataPattern; seed is also the number of dataLE64
	bytes      []byte
}

type dataKind uint8

const (
	dataZero    dataKind = iota
	dataPattern          // "seed:S@BASE": bytes from BASE of the pattern of a seed (peer.PatternByte)
	dataHex              // "hex:0a0b..."
	dataLE64             // "le64:N": eight bytes, least significant first
)

func parseData(w word) (d dataSpec, err error) {
	kind, rest, _ := strings.Cut(w.text, ":")
	at := word{place{w.at.file, w.at.line, w.at.col + len(kind) + 1}, rest}
	switch kind {
	case "zero":
		return dataSpec{kind: dataZero}, nil
	case "seed":
		seed, base, ok := strings.Cut(rest, "@")
		d.kind = dataPattern
		if d.seed, err = parseExpr(word{at.at, seed}); err != nil {
			return d, err
		}
		if ok {
			d.base, err = parseExpr(word{place{w.at.file, w.at.line, at.at.col + len(seed) + 1}, base})
		}
		return d, err
	case "hex":
		d.kind = dataHex
		for i := 0; i < len(rest); i += 2 {
			n, err := strconv.ParseUint(rest[i:min(i+2, len(rest))], 16, 8)
			if err != nil || i+2 > len(rest) {
				return d, errAt(at.at, "%q is not a row of bytes in hexadecimal", rest)
			}
			d.bytes = append(d.bytes, byte(n))
		}
		return d, nil
	case "le64":
		d.kind = dataLE64
		d.seed, err = parseExpr(at)
		return d, err
	}
	return d, errAt(w.at, "%q is no contents: use zero, seed:S@BASE, hex:BYTES or le64:N", w.text)
}

// maxTime is the longest time that a script may ask for.
const maxTime = 5 * time.Minute

func parseTime(w word) (time.Duration, error) {
	d, err := time.ParseDuration(w.text)
	if err != nil || d < 0 || d > maxTime {
		return 0, errAt(w.at, "%q is not a time up to %v, such as 10ms", w.text, maxTime)
	}
	return d, nil
}
