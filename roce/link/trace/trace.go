package trace

import (
	"io"
	"sync"
	"time"

	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
)

// Link is a link that writes its packets to a trace.
type Link struct {
	link.Link
	base int64 // wall clock minus the clock of the link, nanoseconds

	mu    sync.Mutex // the two sides of the link share the writer
	w     *Writer
	err   error
	count uint64
	made  Headers
	head  []byte
	body  []byte
}

// New wraps l and starts a trace on w. On a link with a virtual clock the times in the trace are
// virtual, counted from 1970.
func New(l link.Link, w io.Writer) (*Link, error) {
	pw, err := NewWriter(w)
	if err != nil {
		return nil, err
	}
	t := &Link{Link: l, w: pw}
	if !l.Capabilities().Virtual {
		t.base = time.Now().UnixNano() - l.Now()
	}
	return t, nil
}

// Unwrap returns the traced link.
func (t *Link) Unwrap() link.Link { return t.Link }

// Err returns the error that ended the trace, if any.
func (t *Link) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Packets returns how many packets were written.
func (t *Link) Packets() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// Send writes the packets to the trace and sends them.
func (t *Link) Send(batch []edge.TxPacket) {
	n := 0
	// As far as the payloads exist: reading one that is gone panics.
	defer func() { t.Link.Send(batch[:n]) }()
	if len(batch) > 0 {
		t.sent(batch, &n)
	}
}

// Recv receives packets and writes them to the trace.
func (t *Link) Recv(batch []edge.RxPacket) (int, error) {
	n, err := t.Link.Recv(batch)
	if n > 0 {
		t.received(batch[:n])
	}
	return n, err
}

// sent writes packets, and counts in n those that it has finished.
func (t *Link) sent(batch []edge.TxPacket, n *int) {
	now := t.Link.Now() + t.base
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range batch {
		p := &batch[i]
		if p.Path.Src.Is4() != p.Path.Dst.Is4() {
			*n = i + 1
			continue // no link can send it
		}
		f := link.Source{Src: p.Path.Src, Dst: p.Path.Dst, SrcPort: t.Link.SourcePort(p.Path)}
		t.body = link.AppendPacket(t.body[:0], t.made.ICRC(f), p, 0)
		t.write(now, true, f, p.Path.TrafficClass, p.Path.HopLimit, 0, t.body)
		*n = i + 1
	}
}

func (t *Link) received(batch []edge.RxPacket) {
	now := t.Link.Now() + t.base
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range batch {
		p := &batch[i]
		f := link.Source{Src: p.Src, Dst: p.Dst, SrcPort: p.SrcPort}
		t.write(now, false, f, p.TrafficClass, p.HopLimit, t.made.Identification(f, p.Data), p.Data)
	}
}

func (t *Link) write(now int64, outbound bool, f link.Source, tclass, ttl uint8, id uint16, body []byte) {
	if t.err != nil {
		return
	}
	t.head = AppendHeaders(t.head[:0], f, tclass, ttl, id, body)
	if t.err = t.w.Packet(now, outbound, t.head, body); t.err == nil {
		t.count++
	}
}
