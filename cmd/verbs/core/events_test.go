package main

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// An asynchronous event that waits already is not counted again; others are never lost, however
// many objects there are.
func TestAsyncQueue(t *testing.T) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	q := newAsyncQueue(fd)
	counted := func() uint64 {
		var b [8]byte
		if _, err := unix.Read(fd, b[:]); err != nil {
			return 0
		}
		return binary.NativeEndian.Uint64(b[:])
	}
	const objects = 10_000
	taken := make([]uint32, objects)
	kinds := []asyncEvent{{kind: 1}, {kind: 3}}
	for range 3 {
		for i := range taken {
			for _, e := range kinds {
				e.taken = &taken[i]
				q.push(e)
			}
		}
	}
	if n := counted(); n != 2*objects {
		t.Fatalf("%d events were counted, not %d", n, 2*objects)
	}
	for i := range taken {
		if i%2 == 1 {
			if n := q.forget(&taken[i]); n != 0 {
				t.Fatalf("%d events of object %d were taken", n, i)
			}
		}
	}
	for i := 0; i < objects; i += 2 {
		for _, want := range kinds {
			e, ok := q.pop()
			if !ok || e.kind != want.kind || e.taken != &taken[i] {
				t.Fatalf("%+v, %v came; object %d, kind %d is next", e, ok, i, want.kind)
			}
		}
		if n := q.forget(&taken[i]); n != 2 {
			t.Fatalf("%d events of object %d were taken, not 2", n, i)
		}
	}
	if e, ok := q.pop(); ok {
		t.Fatalf("%+v is left", e)
	}
	// What is told last is how the port is, and a count is there for each event.
	down, up := asyncEvent{kind: 10, element: 1}, asyncEvent{kind: 9, element: 1}
	for range 5 {
		q.push(down)
		q.push(up)
	}
	q.push(down)
	if n := counted(); n != 2 {
		t.Fatalf("%d events were counted, not 2", n)
	}
	for _, want := range []asyncEvent{up, down} {
		if e, _ := q.pop(); e != want {
			t.Fatalf("%+v came, not %+v", e, want)
		}
	}
	if len(q.at) != 0 || q.order.Len() != 0 {
		t.Fatal("something is left")
	}
	q.push(up) // one that was taken may come again
	if n := counted(); n != 1 {
		t.Fatalf("%d events were counted, not 1", n)
	}
}
