package ether

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Event is one RoCE packet that a Trace saw.
type Event struct {
	At   time.Duration // since the switch was made; never goes back
	From string        // port where it entered; empty if injected
	// Fate is what a rule did: "drop", "duplicate", "reorder" (held back; a "release"
	// event follows), "corrupt", "rewrite", "mark-ce", "observe", "swallow", "inject"; empty for
	// most packets.
	Fate string
	Pkt  *Packet
}

// Delivered reports whether the event put the packet on its way to the receiver.
func (e Event) Delivered() bool {
	return e.Fate != "drop" && e.Fate != "reorder" && e.Fate != "delay" && e.Fate != "swallow"
}

func (e Event) String() string {
	return fmt.Sprintf("%12v %-8s %-9s %v", e.At, e.From, e.Fate, e.Pkt)
}

// maxTraceEvents bounds a trace's memory; Lost counts what came after.
const maxTraceEvents = 1 << 17

// Trace collects the RoCE packets that pass a switch, from Switch.Trace to Stop.
type Trace struct {
	sw    *Switch
	match func(*Packet) bool
	last  int // keeps at least this many of the last events, and no more than twice as many; 0: all

	mu     sync.Mutex
	events []Event
	lost   int
}

// Trace starts a trace of the packets that match (nil: all).
func (s *Switch) Trace(match func(*Packet) bool) *Trace {
	t := &Trace{sw: s, match: match}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.traces = append(s.traces, t)
	return t
}

// TraceLast is Trace for the last n packets.
func (s *Switch) TraceLast(n int, match func(*Packet) bool) *Trace {
	t := s.Trace(match)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = n
	return t
}

// Stop ends the trace; that of no trace (nil) does nothing.
func (t *Trace) Stop() {
	if t == nil {
		return
	}
	t.sw.mu.Lock()
	defer t.sw.mu.Unlock()
	t.sw.traces = slices.DeleteFunc(t.sw.traces, func(x *Trace) bool { return x == t })
}

// Events returns a copy of what was seen so far, in order.
func (t *Trace) Events() []Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.events)
}

// Lost returns how many packets the trace had no room for.
func (t *Trace) Lost() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost
}

// Tail formats the last n events, one a line.
func (t *Trace) Tail(n int) string {
	ev := t.Events()
	var b strings.Builder
	for _, e := range ev[max(0, len(ev)-n):] {
		fmt.Fprintln(&b, e)
	}
	return b.String()
}

func (s *Switch) trace(from *Port, p *Packet, fate string) {
	if len(s.traces) == 0 {
		return
	}
	name := ""
	if from != nil {
		name = from.Name
	}
	for _, t := range s.traces {
		if t.match != nil && !t.match(p) {
			continue
		}
		t.mu.Lock()
		if t.last > 0 && len(t.events) >= 2*t.last {
			n := copy(t.events, t.events[len(t.events)-t.last+1:])
			clear(t.events[n:])
			t.events = t.events[:n]
		}
		if len(t.events) < maxTraceEvents {
			t.events = append(t.events, Event{At: s.Now(), From: name, Fate: fate, Pkt: p})
		} else {
			t.lost++
		}
		t.mu.Unlock()
	}
}

// Capture writes the frames that leave a switch, after the faults, to a pcap file.
type Capture struct {
	sw    *Switch
	match func(*Packet) bool
	f     *os.File
	w     *bufio.Writer

	opcodes map[uint8]int // under the switch's lock
}

// Capture starts a capture to path: of the RoCE packets that match, or with nil of all frames.
func (s *Switch) Capture(path string, match func(*Packet) bool) (*Capture, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	c := &Capture{sw: s, match: match, f: f, w: bufio.NewWriterSize(f, 1<<16), opcodes: map[uint8]int{}}
	if _, err := c.w.Write(pcapHeader()); err != nil {
		f.Close()
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.caps = append(s.caps, c)
	return c, nil
}

// Close ends the capture.
func (c *Capture) Close() error {
	c.sw.mu.Lock()
	c.sw.caps = slices.DeleteFunc(c.sw.caps, func(x *Capture) bool { return x == c })
	c.sw.mu.Unlock()
	return c.close()
}

// Opcodes returns how many packets of each opcode were captured so far.
func (c *Capture) Opcodes() map[uint8]int {
	c.sw.mu.Lock()
	defer c.sw.mu.Unlock()
	return maps.Clone(c.opcodes)
}

func (c *Capture) close() error {
	err := c.w.Flush()
	if e := c.f.Close(); err == nil {
		err = e
	}
	return err
}

// frame appends one record; errors show in Close, where bufio reports them again.
func (c *Capture) frame(f []byte) {
	p, ok := Decode(f)
	if c.match != nil && (!ok || !c.match(p)) {
		return
	}
	if ok {
		c.opcodes[p.Opcode]++
	}
	_, _ = c.w.Write(pcapRecord(nil, time.Now(), f))
}
