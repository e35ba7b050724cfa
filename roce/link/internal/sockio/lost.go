package sockio

import "os"

// Payloads are read in place, in registered memory, and that may be a mapping whose pages are gone:
// see link.Link. Then an access here panics; in a system call it is EFAULT.

// pageBytes is the unit in which memory comes and goes.
var pageBytes = os.Getpagesize()

// Touch reads the memory of a message that the kernel could not read, to cause the panic that says
// where. It returns if all of it can be read after all.
func (t *Batch[P]) Touch(m *Message[P]) {
	for i := m.iov0; i < m.iov0+m.iovs; i++ {
		b := iovBytes(&t.iovs[i])
		for at := 0; at < len(b); at += pageBytes {
			t.touched += b[at]
		}
		t.touched += b[len(b)-1] // it may be in one page more
	}
}

// DropBroken removes the last message if a panic interrupted the adding of a packet to it; the
// front of a message has reserve bytes. It returns how many whole packets were in it.
func (t *Batch[P]) DropBroken(reserve int) (packets int) {
	m := t.Last()
	if m == nil {
		return 0
	}
	have := 0
	for i := m.iov0; i < m.iov0+m.iovs; i++ {
		have += int(t.iovs[i].Len)
	}
	if have == reserve+m.Size {
		return 0
	}
	packets = m.Packets
	t.Msgs = t.Msgs[:len(t.Msgs)-1]
	return packets
}
