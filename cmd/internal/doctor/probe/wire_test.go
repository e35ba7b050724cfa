package probe

import (
	"context"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// packet is one on its way in a test.
type packet struct {
	from, to netip.AddrPort
	b        []byte
	tos, ttl uint8
	id       uint16
	noDF     bool
	back     bool // to the client
	late     time.Duration
	due      time.Time
}

// wire connects sockets; what it does to packets is what the path under test does.
type wire struct {
	sockets map[netip.AddrPort]*wireSocket
	delay   time.Duration
	// path gets each packet and returns what becomes of it; nil lets all pass.
	path   func(p packet) []packet
	client netip.Addr
	header bool // receivers see IPv4 headers
}

type wireSocket struct {
	w    *wire
	at   netip.AddrPort
	line chan packet // on their way here, in order
	in   chan packet
	errs chan error // what the network says
	done chan struct{}

	damaged, full atomic.Uint32 // what its kernel has dropped
}

func (w *wire) open(at netip.AddrPort) *wireSocket {
	s := &wireSocket{w: w, at: at, line: make(chan packet, 1<<14), in: make(chan packet, 1<<14),
		errs: make(chan error, 16), done: make(chan struct{})}
	w.sockets[at] = s
	go s.carry()
	return s
}

// carry delivers what is on its way here.
func (s *wireSocket) carry() {
	for {
		select {
		case p := <-s.line:
			time.Sleep(time.Until(p.due)) // of virtual time
			s.deliver(p)
		case <-s.done:
			return
		}
	}
}

func (s *wireSocket) deliver(p packet) {
	select {
	case s.in <- p:
	default: // the buffer is full
	}
}

func (s *wireSocket) local() netip.AddrPort { return s.at }

func (s *wireSocket) send(b []byte, to netip.AddrPort, tos uint8) error {
	p := packet{from: s.at, to: to, b: slices.Clone(b), tos: tos, ttl: 64, back: s.at.Addr() != s.w.client}
	out := []packet{p}
	if s.w.path != nil {
		out = s.w.path(p)
	}
	for _, p := range out {
		p.due = time.Now().Add(s.w.delay)
		switch d := s.w.sockets[p.to]; {
		case d == nil:
		case p.late > 0: // others overtake it
			time.AfterFunc(s.w.delay+p.late, func() { d.deliver(p) })
		default:
			select {
			case d.line <- p:
			default:
			}
		}
	}
	return nil
}

func (s *wireSocket) recv(b []byte, until time.Time) (int, arrival, error) {
	var timeout <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		timeout = t.C
	}
	select {
	case p := <-s.in:
		return copy(b, p.b),
			arrival{from: p.from, tos: p.tos, ttl: p.ttl, header: s.w.header, id: p.id, noDF: p.noDF}, nil
	case err := <-s.errs:
		return 0, arrival{}, err
	case <-s.done:
		return 0, arrival{}, net.ErrClosed
	case <-timeout:
		return 0, arrival{}, os.ErrDeadlineExceeded
	}
}

func (s *wireSocket) drops() (drops, bool) {
	return drops{Damaged: s.damaged.Load(), Full: s.full.Load()}, true
}

func (s *wireSocket) close() { close(s.done) }

var (
	clientAt = netip.MustParseAddr("10.0.0.1")
	serverAt = netip.MustParseAddr("10.0.0.2")
)

const (
	testDelay = time.Millisecond
	testBurst = 200
)

func port(a netip.Addr, p uint16) netip.AddrPort { return netip.AddrPortFrom(a, p) }

// over tries a path in virtual time.
func over(t *testing.T, set func(w *wire), f func(w *wire, s *Server, r *Result)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &wire{sockets: map[netip.AddrPort]*wireSocket{}, delay: testDelay, client: clientAt}
		s := newServer(w.open(port(serverAt, 4791)), w.open(port(serverAt, 50000)), time.Now, nil)
		c := newClient(t.Context(), w.open(port(clientAt, 50001)), w.open(port(clientAt, 4791)), port(serverAt, 4791))
		c.burst = testBurst
		set(w)
		done := make(chan error)
		go func() { done <- s.Serve(context.Background()) }()
		r, err := c.try(&Config{GoodputTime: 5 * time.Millisecond, LocalMTU: 4200})
		require.NoError(t, err)
		s.Close()
		require.ErrorIs(t, <-done, net.ErrClosed)
		c.sock.close()
		c.home.close()
		f(w, s, r)
	})
}

// pass lets packets pass in one direction, and hands those of the other to f.
func pass(back bool, f func(p packet) []packet) func(p packet) []packet {
	return func(p packet) []packet {
		if p.back != back {
			return []packet{p}
		}
		return f(p)
	}
}
