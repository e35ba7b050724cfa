package rdmacm

import (
	"net/netip"
	"time"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/rdmacm/cm"
	"github.com/goroce/goroce/roce/verbs"
)

// MaxRdAtomic is a limit that tests compare with.
const MaxRdAtomic = maxRdAtomic

// Requested reports whether a channel has requests to take.
func Requested(c *EventChannel) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.listeners) > 0
}

// Book is the wills of a device.
type Book = book

// Note is note.
func (b *book) Note(w *cm.Will) { b.note(w) }

// Close is close.
func (b *book) Close() { b.close() }

// Name is where the file is.
func (b *book) Name() string { return b.name }

// Die leaves the file, as the kernel does.
func (b *book) Die() {
	_ = unix.Munmap(b.held)
	unix.Close(b.fd)
}

// WillsOf returns the wills of a device, and makes its communication manager.
func WillsOf(d *verbs.Device) (all []cm.Will, err error) {
	s := access.Shard(d)
	if err := s.Lock(); err != nil {
		return nil, err
	}
	defer s.Unlock()
	a, err := agentOf(s)
	if err != nil {
		return nil, err
	}
	a.core.KeepWills()
	for w, ok := a.core.PollWill(); ok; w, ok = a.core.PollWill() {
		all = append(all, w)
	}
	return all, nil
}

// TellAll has a device tell an address of the end of n connections. told is closed once all are
// known to be told; left counts the others.
func TellAll(d *verbs.Device, to netip.Addr, n int) (told chan struct{}, left func() int, err error) {
	s := access.Shard(d)
	told = make(chan struct{})
	var a *agent
	err = s.Command(func(int64) error {
		if a, err = agentOf(s); err != nil {
			return err
		}
		for i := range n {
			w := &cm.Will{ID: mad.CommID(i), RemoteID: 77, RemoteQPN: 88}
			w.Src, w.Dst = d.Addrs()[0], to
			a.core.Tell(w)
		}
		a.told, a.ready = told, true
		return nil
	})
	return told, func() int { s.LockAlways(); defer s.Unlock(); return a.core.Untold() }, err
}

// LeftWills, ReadLeft and so on are for tests of what is in files.
var LeftWills, ReadLeft, BookPrefix = leftWills, readLeft, bookPrefix

// SetBookDir has files elsewhere.
func SetBookDir(dir string) (before string) {
	before, bookDir = bookDir, dir
	return before
}

// WaitForTold has Listen wait for so long.
func WaitForTold(d time.Duration) (before time.Duration) {
	before, toldTime = toldTime, d
	return before
}

// FoundAt is where a file says when it was found.
const (
	FoundAt    = foundAt
	EntryBytes = entryBytes
	LeftFor    = leftFor
)
