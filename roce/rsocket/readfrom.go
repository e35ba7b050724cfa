package rsocket

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"
)

// ReadFrom writes the content of src until io.EOF; io.Copy and net/http call it. It reads files and
// memory straight into the send buffer, other sources into memory that connections share, in pieces
// as large as src returns. It returns how many bytes were written, and an error of src or of Write.
func (c *Conn) ReadFrom(src io.Reader) (n int64, err error) {
	if !c.valid() {
		return 0, errInvalid
	}
	if src == nil {
		return 0, argError("write", "src", "nil")
	}
	if ready(src) {
		c.wmu.Lock()
		n, err, failed := c.fill(src)
		c.wmu.Unlock()
		if err == nil {
			err = failed
		} else {
			err = opError("write", c.laddr, c.raddr, err)
		}
		return n, err
	}
	return c.copyFrom(src)
}

// ready reports whether a source returns its content without waiting for others. Only such sources
// are read while Close and other Writes wait.
func ready(src io.Reader) bool {
	if l, ok := src.(*io.LimitedReader); ok {
		src = l.R
	}
	switch r := src.(type) {
	case *bytes.Reader, *strings.Reader, *bytes.Buffer:
		return true
	case *os.File:
		st, err := r.Stat()
		return err == nil && st.Mode().IsRegular()
	}
	return false
}

// fill reads src into the send buffer. err is why it could not write; failed is the error of src.
// wmu is held.
func (c *Conn) fill(src io.Reader) (n int64, err, failed error) {
	c.mu.Lock()
	defer c.leave()
	if err := c.refused(&c.wr); err != nil {
		return 0, err, nil
	}
	idle := 0
	for ramp := c.s.snd.begins(); ; ramp = min(4*ramp, maxTransfer) {
		want := max(ramp, inlineBytes+1)
		k, later, err := c.sendable(want, want)
		if err != nil {
			return n, err, nil
		}
		b := &c.s.snd.buf
		from := c.send[c.out].mem[b.head:][:min(k, b.size-b.head)]
		b.pinned = true
		c.mu.Unlock()
		got, failed := src.Read(from)
		c.mu.Lock()
		b.pinned = false
		if got > 0 {
			idle = 0
			if err := c.writeEnd(); err != nil {
				return n, err, nil
			}
			if later {
				c.s.stage(got)
				c.pour()
				err = c.err
			} else {
				c.s.data(got, &c.wmsg)
				err = c.postData(from[:got], true)
			}
			if err != nil {
				return n, err, nil
			}
			n += int64(got)
		} else if idle++; failed == nil && idle == maxIdleReads {
			failed = io.ErrNoProgress
		}
		if failed == io.EOF {
			return n, nil, nil
		}
		if failed != nil {
			return n, nil, failed
		}
	}
}

// pieces are the buffers of copyFrom, in two sizes: many connections may wait for sources that
// return little at a time.
var pieces = [2]sync.Pool{
	{New: func() any { return new([smallPiece]byte) }},
	{New: func() any { return new([maxTransfer]byte) }},
}

const (
	smallPiece   = 32 << 10
	maxIdleReads = 100 // without progress, as in package bufio
)

// copyFrom is ReadFrom for a source that may have to wait.
func (c *Conn) copyFrom(src io.Reader) (n int64, err error) {
	idle := 0
	for large := false; ; {
		var got int
		var failed error
		got, large, err, failed = c.copyPiece(src, large)
		n += int64(got)
		switch {
		case err != nil:
			return n, err
		case failed == io.EOF:
			return n, nil
		case failed != nil:
			return n, failed
		case got > 0:
			idle = 0
		default:
			if idle++; idle == maxIdleReads {
				return n, io.ErrNoProgress
			}
		}
	}
}

// copyPiece copies one piece. It reports whether the next piece should be large, the error of
// Write, and that of src.
func (c *Conn) copyPiece(src io.Reader, large bool) (n int, more bool, err, failed error) {
	var b []byte
	if large {
		p := pieces[1].Get().(*[maxTransfer]byte)
		defer pieces[1].Put(p)
		b = p[:]
	} else {
		p := pieces[0].Get().(*[smallPiece]byte)
		defer pieces[0].Put(p)
		b = p[:]
	}
	got, failed := src.Read(b)
	if got > 0 {
		n, err = c.Write(b[:got])
	}
	return n, got >= smallPiece, err, failed
}
