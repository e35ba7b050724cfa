//go:build linux

package slots

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/goroce/goroce/transport/edge"
)

// memoryAndLocks is an address as the kernel has it, without a kernel: the memory file, its locks,
// and what waits in the sockets. It is there as long as a process has it.
type memoryAndLocks struct {
	members int
	locks   []heldLock
	memory  map[int64]uint64 // by offset; each access is of 8 bytes
	deaf    [Count + 1]bool
	udp     [Count + 1][]datagram
	inbox   [Count][]datagram
}

// heldLock is a record lock, from its first byte to the one before end.
type heldLock struct {
	owner   int
	at, end int64
}

// datagram is something that somebody sent.
type datagram struct {
	life int // to which life of the slot; 0: a request
	n    int // which request
}

func newMemoryAndLocks() *memoryAndLocks { return &memoryAndLocks{memory: map[int64]uint64{}} }

func until(at, n int64) int64 {
	if n == 0 {
		return math.MaxInt64
	}
	return at + n
}

func (m *memoryAndLocks) conflict(owner int, at, end int64) (heldLock, bool) {
	var first heldLock
	found := false
	for _, l := range m.locks {
		if l.owner != owner && l.at < end && at < l.end && (!found || l.at < first.at) {
			first, found = l, true
		}
	}
	return first, found
}

// release gives bytes back, if the owner has them; what is left of a lock stays.
func (m *memoryAndLocks) release(owner int, at, end int64) {
	var all []heldLock
	for _, l := range m.locks {
		if l.owner != owner || l.end <= at || end <= l.at {
			all = append(all, l)
			continue
		}
		if l.at < at {
			all = append(all, heldLock{owner, l.at, at})
		}
		if end < l.end {
			all = append(all, heldLock{owner, end, l.end})
		}
	}
	m.locks = all
}

func (m *memoryAndLocks) acquire(owner int, at, end int64) bool {
	if _, taken := m.conflict(owner, at, end); taken {
		return false
	}
	m.release(owner, at, end)
	// The kernel makes one of those that touch.
	for i := 0; i < len(m.locks); i++ {
		if l := m.locks[i]; l.owner == owner && (l.end == at || end == l.at) {
			at, end = min(at, l.at), max(end, l.end)
			m.locks = slices.Delete(m.locks, i, i+1)
			i = -1
		}
	}
	m.locks = append(m.locks, heldLock{owner, at, end})
	slices.SortFunc(m.locks, func(a, b heldLock) int {
		if a.owner != b.owner {
			return a.owner - b.owner
		}
		return int(a.at - b.at)
	})
	return true
}

// arrive is a datagram that comes to a socket.
func (m *memoryAndLocks) arrive(slot int, d datagram) {
	if !m.deaf[slot] {
		m.udp[slot] = append(m.udp[slot], d)
	}
}

// fakeGround is the ground of a process at an address. Each call is a step: others run before it
// happens, and the process may die there.
type fakeGround struct {
	p    *actor
	addr int
}

func (g *fakeGround) m() *memoryAndLocks { return g.p.w.addrs[g.addr] }

// step waits for its turn, and notes what the call brought: what the process does next depends on
// that alone.
func (g *fakeGround) step(call func() string, f string, args ...any) {
	g.p.await(g.addr, f, args...)
	g.p.learn(call())
}

func (g *fakeGround) lock(at, n int64) (ok bool, err error) {
	g.step(func() string { ok = g.m().acquire(g.p.id, at, until(at, n)); return fmt.Sprint(ok) },
		"lock %s", place(at, n))
	return ok, nil
}

func (g *fakeGround) unlock(at, n int64) {
	g.step(func() string { g.m().release(g.p.id, at, until(at, n)); return "" }, "unlock %s", place(at, n))
}

func (g *fakeGround) locked(at, n int64) (start, length int64, ok bool) {
	g.step(func() string {
		var l heldLock
		if l, ok = g.m().conflict(g.p.id, at, until(at, n)); ok {
			start, length = l.at, l.end-l.at
		}
		return fmt.Sprint(start, length, ok)
	}, "who has %s?", place(at, n))
	return start, length, ok
}

func (g *fakeGround) read(at int64) (w word, err error) {
	g.step(func() string { w = g.m().memory[at]; return fmt.Sprint(w) }, "read %d", at)
	return w, nil
}

func (g *fakeGround) write(at int64, v word) error {
	g.step(func() string { g.m().memory[at] = v; return "" }, "write %d: %d", at, v)
	return nil
}

func (g *fakeGround) deafen(slot int) error {
	g.step(func() string { g.m().deaf[slot] = true; return "" }, "deafen %d", slot)
	return nil
}

func (g *fakeGround) hear(slot int) error {
	g.step(func() string { g.m().deaf[slot] = false; return "" }, "hear %d", slot)
	return nil
}

func (g *fakeGround) drain(slot int) {
	g.step(func() string { g.m().udp[slot] = nil; return "" }, "drain %d", slot)
}

func (g *fakeGround) drainInbox(slot int) {
	g.step(func() string { g.m().inbox[slot] = nil; return "" }, "drain inbox %d", slot)
}

func (g *fakeGround) handOn(slot int, b []byte) bool {
	g.step(func() string {
		var p edge.RxPacket
		for s := ParseStrays(b); s.Next(&p); {
			g.m().inbox[slot] = append(g.m().inbox[slot], datagram{n: int(p.SrcPort)})
		}
		return ""
	}, "hand on to %d", slot)
	return true
}

// place says which bytes are locked.
func place(at, n int64) string {
	switch {
	case n == 0:
		return "all"
	case at >= serviceAt:
		return fmt.Sprintf("service (%d bytes)", n)
	case at >= servingAt:
		return strings.TrimSpace(fmt.Sprintf("serving of %d %s", at-servingAt, many(n)))
	}
	return strings.TrimSpace(fmt.Sprintf("slot %d %s", at, many(n)))
}

func many(n int64) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf("and the next %d", n-1)
}
