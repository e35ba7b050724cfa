package guestproto

import (
	"bytes"
	"testing"
)

func TestFrames(t *testing.T) {
	var buf bytes.Buffer
	c := NewConn(&buf)
	big := bytes.Repeat([]byte{7}, maxFrame+10)
	if err := c.WriteFrame(TypeStdin, big); err == nil {
		t.Fatal("a frame over the limit was sent")
	}
	if n, err := c.Writer(TypeStdout).Write(big); err != nil || n != len(big) {
		t.Fatal(n, err)
	}
	if err := c.WriteJSON(TypeExit, Exit{Code: 3}); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for range 2 {
		typ, p, err := c.ReadFrame()
		if err != nil || typ != TypeStdout {
			t.Fatal(typ, err)
		}
		got = append(got, p...)
	}
	if !bytes.Equal(got, big) {
		t.Fatal("the bytes differ")
	}
	typ, p, err := c.ReadFrame()
	if err != nil || typ != TypeExit || string(p) != `{"code":3}` {
		t.Fatal(typ, string(p), err)
	}
	if _, _, err := c.ReadFrame(); err == nil {
		t.Fatal("a frame out of nothing")
	}
	buf.Write([]byte{2, 0xff, 0xff, 0xff, 0xff})
	if _, _, err := c.ReadFrame(); err == nil {
		t.Fatal("a frame over the limit was read")
	}
}
