package sim

import (
	"bytes"
	"cmp"
	"runtime"
	"strconv"
)

// goroutine records the ancestry of a goroutine, which puts goroutines into an order that does not
// depend on which of them ran first.
type goroutine struct {
	id     uint64
	known  bool       // parent is known
	parent *goroutine // the goroutine that started it; nil if there is none
}

// family has the goroutines that were asked so far, and their parents, by number.
type family map[uint64]*goroutine

// self returns the calling goroutine. The runtime reveals its number and that of its parent only in
// the stack trace.
func (m family) self() *goroutine {
	buf := make([]byte, 4<<10)
	n := runtime.Stack(buf, false)
	g := m.get(number(buf[:n], "goroutine "))
	if g.known {
		return g
	}
	for n == len(buf) { // the line needed is the last but one
		buf = make([]byte, 4*len(buf))
		n = runtime.Stack(buf, false)
	}
	g.known = true
	if i := bytes.LastIndex(buf[:n], []byte("\ncreated by ")); i >= 0 {
		// A timer may start its function from any goroutine.
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

// compare orders goroutines. Children of one goroutine are in the order in which it started them:
// [Run] ensures that their numbers grow. Others are in the order of their ancestors that are
// children of one goroutine.
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
		return cmp.Compare(da, db) // the parent comes first
	}
	for a.parent != b.parent {
		a, b = a.parent, b.parent
	}
	return cmp.Compare(a.id, b.id)
}
