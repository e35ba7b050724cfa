package rdmacm

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/goroce/goroce/roce/rsocket"
)

// mapping is one test: the mapping of its buffer, and the mark that the last byte
// of a transfer carries, which counts over both directions.
type mapping struct {
	s    *streamSession
	c    *rsocket.Conn
	m    *rsocket.Mapping
	buf  []byte
	mark byte
}

// noMark is what the last byte is before the first transfer.
const noMark = 0xff

func mapped(s *streamSession, t streamTest, start func()) (err error) {
	r := &mapping{s: s, c: s.Conn.(*rsocket.Conn), buf: s.Buf[:t.Size]}
	r.buf[t.Size-1] = noMark
	if r.m, err = r.c.Map(r.buf, 0); err != nil {
		return err
	}
	// The mapping stays while the peer may write.
	defer func() { err = errors.Join(err, r.m.Close()) }()
	// The bytes of the exchange go through memory of their own: the peer may begin
	// to write into the mapping as soon as it has its answer. The original takes them into
	// its mapping: they must not look like a mark there.
	s2 := *s
	s2.Buf = bytes.Repeat([]byte{noMark}, len(s.Buf))
	if err := s2.Sync(false); err != nil {
		return err
	}
	start()
	steps := []func(int) error{r.send, r.recv}
	if !s.Client() {
		steps = []func(int) error{r.recv, r.send}
	}
	for range t.Iterations {
		for _, step := range steps {
			if err := step(t.Transfers); err != nil {
				return err
			}
		}
	}
	return nil
}

// send writes the buffer n times, the last time with the next mark.
func (r *mapping) send(n int) error {
	for range n - 1 {
		if _, err := r.c.WriteAt(r.buf, 0); err != nil {
			return err
		}
	}
	last := len(r.buf) - 1
	r.buf[last] = r.mark
	r.mark++
	if r.s.Opt.Verify {
		r.s.Sent.Fill(r.buf[:last])
	}
	_, err := r.c.WriteAt(r.buf, 0)
	return err
}

// How recv waits: it looks all the time at first, and then sleeps between
// looks, since with few CPUs it is the thread that receives which lacks one.
const (
	markBusyTime = 100 * time.Microsecond
	markNap      = 10 * time.Microsecond
	markLooks    = 64 // of the clock and the context
)

// recv waits for the next mark.
func (r *mapping) recv(int) error {
	start := time.Now()
	for n := 1; ; n++ {
		found, err := r.marked()
		if err != nil {
			return err
		}
		if found {
			break
		}
		if n%markLooks == 0 {
			if r.s.Ctx.Err() != nil {
				return context.Cause(r.s.Ctx)
			}
			if err := r.c.Err(); err != nil {
				// The peer may have gone after its last transfer.
				if found, _ := r.marked(); found {
					break
				}
				return err
			}
			if time.Since(start) > markBusyTime {
				time.Sleep(markNap)
				n-- // look at the clock again next time
			}
		}
		runtime.Gosched()
	}
	r.mark++
	if r.s.Opt.Verify {
		return r.s.Got.Check(r.buf[:len(r.buf)-1])
	}
	return nil
}

// marked reports whether the transfer that the next mark ends has arrived.
func (r *mapping) marked() (bool, error) {
	var b [1]byte
	if _, err := r.m.ReadAt(b[:], int64(len(r.buf)-1)); err != nil {
		return false, err
	}
	return b[0] == r.mark, nil
}
