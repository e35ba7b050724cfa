package probe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/ib"
)

// firstSourcePort is the first of the ports that RoCE v2 uses as entropy; there are 16384.
const firstSourcePort = 0xC000

// Server answers the questions of clients.
type Server struct {
	sock   socket // of port 4791
	cross  socket // of another port
	now    func() time.Time
	tokens *tokens
	runs   map[runKey]*run
	begun  func(netip.Addr) // tells of a client; may be nil

	welcomes int       // in the second of welcomeAt
	window   time.Time // when that began

	stats ServerStats
}

// ServerStats say what a server did with what came.
type ServerStats struct {
	Answered  atomic.Uint64
	Foreign   atomic.Uint64 // not a question of a probe: RoCE packets, most likely
	NoToken   atomic.Uint64 // questions from addresses that have not shown that they receive
	Throttled atomic.Uint64 // welcomes beyond the limit
	Evicted   atomic.Uint64 // runs forgotten for others
}

type runKey struct {
	client netip.Addr
	run    uint32
}

type run struct {
	tally
	used   time.Time
	before drops // when it began
}

// Listen opens a server at an address and port, which is 4791 but for tests and where that is
// taken. begun, if not nil, is told of each client of which nothing is remembered.
func Listen(at netip.AddrPort, begun func(netip.Addr)) (*Server, error) {
	sock, err := openSocket(at, false)
	if err != nil {
		return nil, err
	}
	cross, err := openEntropy(at.Addr(), false)
	if err != nil {
		sock.close()
		return nil, err
	}
	return newServer(sock, cross, time.Now, begun), nil
}

func newServer(sock, cross socket, now func() time.Time, begun func(netip.Addr)) *Server {
	return &Server{sock: sock, cross: cross, now: now, tokens: newTokens(), runs: map[runKey]*run{}, begun: begun}
}

// openEntropy opens a socket of a port from which queue pairs send.
func openEntropy(a netip.Addr, errs bool) (s *udpSocket, err error) {
	for range 16 {
		port := uint16(firstSourcePort + rand.IntN(0x10000-firstSourcePort))
		if s, err = openSocket(netip.AddrPortFrom(a, port), errs); err == nil {
			return s, nil
		}
	}
	return nil, err
}

// Addr returns where clients reach it.
func (s *Server) Addr() netip.AddrPort { return s.sock.local() }

// Stats returns the counters.
func (s *Server) Stats() *ServerStats { return &s.stats }

// Close ends Serve.
func (s *Server) Close() {
	s.sock.close()
	s.cross.close()
}

// Serve answers until the context is over; its cause is the error.
func (s *Server) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, s.Close)
	defer stop()
	buf, out := make([]byte, 64<<10), make([]byte, 0, 64<<10)
	for {
		n, a, err := s.sock.recv(buf, time.Time{})
		switch {
		case err == nil:
			s.handle(buf[:n], a, out)
		case errors.Is(err, net.ErrClosed):
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		case !errors.Is(err, os.ErrDeadlineExceeded):
			// What is said about an answer is no reason to end. An error that stays would
			// be a busy loop.
			time.Sleep(time.Millisecond)
		}
	}
}

// handle takes one packet.
func (s *Server) handle(b []byte, a arrival, out []byte) {
	var q message
	if !q.decode(b) || q.Type != hello && q.Type != ask && q.Type != count {
		s.stats.Foreign.Add(1)
		return
	}
	now := s.now()
	if q.Type == hello {
		s.welcome(&q, a, now, out)
		return
	}
	if !s.tokens.good(a.from.Addr(), q.Token, now) {
		s.stats.NoToken.Add(1)
		return
	}
	at := s.sock.local()
	verdict := q.judge(b, a.from, at)
	r := s.run(a.from.Addr(), q.Run, now)
	reply := message{Type: answer, Flags: q.Flags, Run: q.Run, Seq: q.Seq, Stamp: q.Stamp}
	var more []byte
	if q.Type == count {
		reply.Type = tallied
		if now, ok := s.sock.drops(); ok {
			more = now.since(r.before).encode()
		}
	} else {
		r.add(q.Seq, verdict, a.tos)
		reply.Seen = see(a, at, verdict)
	}
	reply.Tally = r.counts
	if q.Flags&wantQuiet != 0 && q.Type != count {
		return
	}
	size := len(b) &^ 3 // no longer, not by padding either
	if q.Flags&wantShort != 0 {
		size = 0
	}
	s.send(&reply, a.from, q.TOS, size, q.Flags&wantCross != 0, out, more...)
}

// welcome gives a token, to no more addresses a second than the limit.
func (s *Server) welcome(q *message, a arrival, now time.Time, out []byte) {
	if now.Sub(s.window) >= time.Second {
		s.window, s.welcomes = now, 0
	}
	if s.welcomes++; s.welcomes > welcomesPerSecond {
		s.stats.Throttled.Add(1)
		return
	}
	reply := message{Type: welcome, Run: q.Run, Seq: q.Seq, Stamp: q.Stamp, Token: s.tokens.of(a.from.Addr(), now)}
	s.send(&reply, a.from, 0, 0, false, out)
}

// see is what the receiver of a packet tells of it.
func see(a arrival, at netip.AddrPort, v Verdict) seen {
	n := seen{Src: endpointOf(a.from), Dst: endpointOf(at), TOS: a.tos, TTL: a.ttl, ICRC: v}
	if a.header {
		n.Header, n.ID = 1, a.id
		if a.noDF {
			n.NoDF = 1
		}
	}
	return n
}

func (s *Server) send(m *message, to netip.AddrPort, tos uint8, size int, cross bool, out []byte, behind ...byte) {
	sock := s.sock
	if cross {
		sock, to = s.cross, netip.AddrPortFrom(to.Addr(), ib.UDPPort)
	}
	m.Src, m.Dst, m.TOS = endpointOf(sock.local()), endpointOf(to), tos
	if sock.send(m.encode(out, size, behind...), to, tos) == nil {
		s.stats.Answered.Add(1)
	}
}

// run returns the counters of a run, for which the oldest one may have to go.
func (s *Server) run(client netip.Addr, id uint32, now time.Time) *run {
	k := runKey{client, id}
	r := s.runs[k]
	if r == nil {
		if s.begun != nil && !s.knows(client) {
			s.begun(client)
		}
		if len(s.runs) >= maxRuns {
			s.evict()
		}
		r = &run{}
		r.before, _ = s.sock.drops()
		s.runs[k] = r
	}
	r.used = now
	return r
}

// knows reports whether a run of the client is remembered.
func (s *Server) knows(client netip.Addr) bool {
	for k := range s.runs {
		if k.client == client {
			return true
		}
	}
	return false
}

func (s *Server) evict() {
	var oldest runKey
	var at time.Time
	for k, r := range s.runs {
		if at.IsZero() || r.used.Before(at) {
			oldest, at = k, r.used
		}
	}
	delete(s.runs, oldest)
	s.stats.Evicted.Add(1)
}

// String says what became of what came.
func (t *ServerStats) String() string {
	return fmt.Sprintf("%d answered; %d packets that are no question of a probe, %d without a token, %d welcomes beyond the limit",
		t.Answered.Load(), t.Foreign.Load(), t.NoToken.Load(), t.Throttled.Load())
}
