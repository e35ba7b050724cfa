package tool

import (
	"fmt"
	"io"
	"time"
)

// progressEvery is the time between two updates of the line, and before the
// first: a short run shows none.
const progressEvery = time.Second

// Progress is a line on the terminal that says how far a long run is. A nil Progress does nothing.
type Progress struct {
	w     io.Writer
	label string
	total uint64 // 0: unknown
	size  int    // bytes of a message
	start time.Time
	next  time.Time
	shown bool
	count uint64
}

// NewProgress starts a line, if env has a terminal for it. total may be 0.
func NewProgress(env *Env, label string, total uint64, size int) *Progress {
	if !env.Terminal {
		return nil
	}
	now := time.Now()
	return &Progress{w: env.Stderr, label: label, total: total, size: size, start: now, next: now.Add(progressEvery)}
}

// Update says how many messages are done. It is cheap enough to call for each
// batch of completions; it reads the clock every 256th time.
func (p *Progress) Update(done uint64) {
	if p == nil {
		return
	}
	if p.count++; p.count&0xff != 0 {
		return
	}
	p.update(done, time.Now())
}

func (p *Progress) update(done uint64, now time.Time) {
	if now.Before(p.next) {
		return
	}
	p.next = now.Add(progressEvery)
	p.shown = true
	seconds := now.Sub(p.start).Seconds()
	of := ""
	if p.total > 0 {
		of = fmt.Sprintf(" of %d (%d%%)", p.total, done*100/p.total)
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s: %d bytes, %d messages%s, %.1f MiB/s", p.label, p.size, done, of,
		float64(done)*float64(p.size)/seconds/(1<<20))
}

// Done removes the line.
func (p *Progress) Done() {
	if p != nil && p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
