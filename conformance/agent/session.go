package agent

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/goroce/goroce/conformance/peer"
)

// session is a connection with its objects.
type session struct {
	srv      *Server
	nc       net.Conn
	ctx      context.Context // ends with the connection
	admitted bool
	opened   bool
	bytes    int64
	objects  map[uint64]any
	nextID   uint64

	args []peer.AgentArg
	bad  error // the first thing wrong with them that a command has met while it read them
	out  strings.Builder
}

func newSession(srv *Server, nc net.Conn) *session {
	return &session{srv: srv, nc: nc, objects: map[uint64]any{}}
}

// serve answers requests until the connection ends, and then frees all objects.
func (s *session) serve() {
	defer s.free()
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithCancel(context.Background())
	defer cancel()
	lines := make(chan string, sentAhead)
	go s.readLines(lines, cancel)
	defer func() {
		s.nc.Close()
		for range lines { // until readLines has ended
		}
	}()
	for line := range lines {
		answer := s.answer(line)
		_ = s.nc.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := s.nc.Write([]byte(answer + "\n")); err != nil || !s.admitted {
			return // gone, or refused, or it did not begin with hello
		}
		_ = s.nc.SetReadDeadline(time.Time{})
	}
}

const (
	// sentAhead is how many requests are read before the one at work has ended.
	sentAhead = 16
	// writeTimeout is how long a client may take to read an answer.
	writeTimeout = time.Minute
)

// readLines reads requests. That the client has hung up is seen while a request waits, too, which
// then ends.
func (s *session) readLines(to chan<- string, cancel context.CancelFunc) {
	defer close(to)
	defer cancel()
	_ = s.nc.SetReadDeadline(time.Now().Add(helloTimeout))
	in := bufio.NewReaderSize(s.nc, peer.AgentMaxLine)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return // hung up, silent from the start, or a line longer than any
		}
		to <- string(line)
	}
}

// free frees what the session has made. What needs another object is newer than that.
func (s *session) free() {
	for id := s.nextID; id > 0; id-- {
		if o, ok := s.objects[id]; ok {
			_ = closeObject(o)
		}
	}
	s.srv.bytes.Add(-s.bytes)
	if s.admitted {
		s.srv.leave()
	}
}

// answer carries out a request.
func (s *session) answer(line string) string {
	words := strings.Fields(line)
	if len(words) == 0 {
		return answerOf(refuse(einval, "an empty request"))
	}
	s.args, s.bad = s.args[:0], nil
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		s.args = append(s.args, peer.AgentArg{Key: k, Value: v})
	}
	s.out.Reset()
	s.out.WriteString("ok")
	if err := s.run(words[0]); err != nil {
		return answerOf(err)
	}
	if s.out.Len() >= peer.AgentMaxLine {
		return answerOf(refuse(emsgsize, "the answer is longer than %d bytes", peer.AgentMaxLine))
	}
	return s.out.String()
}

func (s *session) run(name string) error {
	switch {
	case name == "hello":
		return s.hello()
	case !s.admitted:
		return refuse(eproto, "a session begins with hello")
	case name == "open":
		return s.open()
	case !s.opened:
		return refuse(enodev, "open first")
	}
	f, ok := commands[name]
	if !ok {
		return refuse(enosys, "there is no command %.40q", name)
	}
	return f(s)
}

// commands are those of an opened session.
var commands = map[string]func(*session) error{}

func init() {
	for _, table := range []map[string]func(*session) error{objectCommands, qpCommands, workCommands, memoryCommands} {
		for name, f := range table {
			commands[name] = f
		}
	}
}

func (s *session) hello() error {
	if s.admitted {
		return refuse(einval, "a second hello")
	}
	version := s.need("version")
	if s.bad != nil {
		return s.bad
	}
	if version != peer.AgentVersion {
		return refuse(eproto, "this agent speaks version %d of the protocol", peer.AgentVersion)
	}
	if err := s.srv.admit(s.str("token"), s.str("client"), s.nc); err != nil {
		return err
	}
	s.admitted = true
	s.say("version=%d agent=goroce device=%s", peer.AgentVersion, s.srv.cfg.Name)
	return nil
}

// say appends to the answer.
func (s *session) say(format string, args ...any) {
	s.out.WriteByte(' ')
	fmt.Fprintf(&s.out, format, args...)
}

// str is the value of a key, "" if there is none.
func (s *session) str(key string) string {
	for _, a := range s.args {
		if a.Key == key {
			return a.Value.(string)
		}
	}
	return ""
}

func (s *session) has(key string) bool {
	for _, a := range s.args {
		if a.Key == key {
			return true
		}
	}
	return false
}

// all are the values of a key.
func (s *session) all(key string) (out []string) {
	for _, a := range s.args {
		if a.Key == key {
			out = append(out, a.Value.(string))
		}
	}
	return out
}

func parseNum(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		return 0, refuse(einval, "%.40q is not a number", text)
	}
	return n, nil
}

// Commands read their arguments by the methods and functions below. What is wrong with one is noted
// in bad and its value is zero, so that a command looks at bad once, when it has read them all.

func (s *session) complain(err error) {
	if s.bad == nil {
		s.bad = err
	}
}

// need is the number at a key.
func (s *session) need(key string) uint64 {
	if !s.has(key) {
		s.complain(refuse(einval, "argument %s is missing", key))
		return 0
	}
	n, err := parseNum(s.str(key))
	if err != nil {
		s.complain(err)
	}
	return n
}

// num is need with a default.
func (s *session) num(key string, def uint64) uint64 {
	if !s.has(key) {
		return def
	}
	return s.need(key)
}

// size is num as an int, and the largest int if it is more.
func (s *session) size(key string, def uint64) int { return clampInt(s.num(key, def)) }

func clampInt(n uint64) int { return int(min(n, 1<<31-1)) }

// object is the object whose number is at a key.
func object[T any](s *session, key string) T { return get[T](s, s.need(key)) }

// optional is object, and zero if the key is not there.
func optional[T any](s *session, key string) (o T) {
	if s.has(key) {
		o = object[T](s, key)
	}
	return o
}

func get[T any](s *session, id uint64) T {
	o, ok := s.objects[id].(T)
	if !ok {
		s.complain(refuse(enoent, "no such object (%d)", id))
	}
	return o
}
