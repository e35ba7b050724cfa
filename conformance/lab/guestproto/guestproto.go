package guestproto

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// Port is labd's TCP and UDP port on the guest's management address.
const Port = 18399

// ReadyLine is what labd prints on the console once it listens.
const ReadyLine = "lab: ready"

// FailLine precedes the reason on the console when labd cannot start.
const FailLine = "lab: failed: "

// maxFrame is the largest payload of a frame, in bytes.
const maxFrame = 1 << 20

// Type tells what a frame carries.
type Type byte

// The frames' types.
const (
	TypeRequest Type = 1 // JSON Request
	TypeStdin   Type = 2 // bytes; empty: end of input
	TypeStdout  Type = 3
	TypeStderr  Type = 4
	TypeSignal  Type = 5 // one byte: the signal's number
	TypeExit    Type = 6 // JSON Exit
)

// Request starts a command.
type Request struct {
	Op   string            `json:"op"` // "exec", "put", "get"
	Argv []string          `json:"argv,omitempty"`
	Env  map[string]string `json:"env,omitempty"`
	Path string            `json:"path,omitempty"` // put, get
	Mode uint32            `json:"mode,omitempty"` // put: permission bits
}

// Exit ends a command. Error is set when it could not be done at all.
type Exit struct {
	Code   int    `json:"code"`
	Signal int    `json:"signal,omitempty"` // number of the signal that ended it
	Error  string `json:"error,omitempty"`
}

// Conn frames a byte stream.
type Conn struct {
	rw io.ReadWriter
	mu sync.Mutex // serialises WriteFrame
}

// NewConn wraps a connected stream.
func NewConn(rw io.ReadWriter) *Conn { return &Conn{rw: rw} }

// WriteFrame sends one frame; payloads over MaxFrame are refused.
func (c *Conn) WriteFrame(t Type, payload []byte) error {
	if len(payload) > maxFrame {
		return fmt.Errorf("guestproto: payload of %d bytes, limit %d", len(payload), maxFrame)
	}
	buf := make([]byte, 5+len(payload))
	buf[0] = byte(t)
	binary.BigEndian.PutUint32(buf[1:5], uint32(len(payload)))
	copy(buf[5:], payload)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.rw.Write(buf)
	return err
}

// WriteJSON sends v as the payload of one frame.
func (c *Conn) WriteJSON(t Type, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.WriteFrame(t, b)
}

// ReadFrame returns the next frame. A frame over MaxFrame is an error.
func (c *Conn) ReadFrame() (Type, []byte, error) {
	var hdr [5]byte
	if _, err := io.ReadFull(c.rw, hdr[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(hdr[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("guestproto: frame of %d bytes, limit %d", n, maxFrame)
	}
	p := make([]byte, n)
	if _, err := io.ReadFull(c.rw, p); err != nil {
		return 0, nil, err
	}
	return Type(hdr[0]), p, nil
}

// Writer returns an io.Writer whose writes become frames of type t.
func (c *Conn) Writer(t Type) io.Writer { return frameWriter{c, t} }

type frameWriter struct {
	c *Conn
	t Type
}

func (w frameWriter) Write(p []byte) (int, error) {
	done := 0
	for len(p) > 0 {
		n := min(len(p), maxFrame)
		if err := w.c.WriteFrame(w.t, p[:n]); err != nil {
			return done, err
		}
		done += n
		p = p[n:]
	}
	return done, nil
}
