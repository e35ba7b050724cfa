package sim

import (
	"bytes"
	"cmp"
	"runtime"
	"strconv"
)

// goroutine is where a goroutine descends from: that puts goroutines into an
// order which does not depend on who happened to run first.
type goroutine struct {
	id     uint64
	known  bool       // that is, parent is
	parent *goroutine // who has started it; nil if there is none
}

// family is the goroutines that were asked so far, and their parents, by number.
type family map[uint64]*goroutine

// self returns the goroutine that calls. The runtime tells its number and that
// of the one that started it by the stack trace only.
func (m family) self() *goroutine {
	buf := make([]byte, 4<<10)
	n := runtime.Stack(buf, false)
	g := m.get(number(buf[:n], "goroutine "))
	if g.known {
		return g
	}
	for n == len(buf) { // the line that tells is the last but one
		buf = make([]byte, 4*len(buf))
		n = runtime.Stack(buf, false)
	}
	g.known = true
	if i := bytes.LastIndex(buf[:n], []byte("\ncreated by ")); i >= 0 {
		// A timer starts its function from whatever goroutine is at hand.
		if by := buf[i:n]; !bytes.HasPrefix(by, []byte("\ncreated by time.goFunc ")) {
			if id := number(by, " in goroutine "); id != 0 {
				g.parent = m.get(id)
			}
		}
	}
	return g
}

func (m family) get(id uint64) *goroutine {
	g := m[id]
	if g == nil {
		g = &goroutine{id: id}
		m[id] = g
	}
	return g
}

// number returns the number after the first occurrence of a text in b, 0 if there is none.
func number(b []byte, after string) uint64 {
	_, b, _ = bytes.Cut(b, []byte(after))
	end := 0
	for end < len(b) && b[end] >= '0' && b[end] <= '9' {
		end++
	}
	n, _ := strconv.ParseUint(string(b[:end]), 10, 64) // 0 without digits
	return n
}

func (g *goroutine) depth() (n int) {
	for ; g.parent != nil; g = g.parent {
		n++
	}
	return n
}

// compare orders goroutines. Those that one goroutine has started are in the order
// in which it did: [Run] sees to it that their numbers grow. Others are in the order
// of those of their ancestors that one goroutine has started.
func (g *goroutine) compare(o *goroutine) int {
	a, b := g, o
	da, db := a.depth(), b.depth()
	for i := da; i > db; i-- {
		a = a.parent
	}
	for i := db; i > da; i-- {
		b = b.parent
	}
	if a == b {
		return cmp.Compare(da, db) // who has started the other is first
	}
	for a.parent != b.parent {
		a, b = a.parent, b.parent
	}
	return cmp.Compare(a.id, b.id)
}
