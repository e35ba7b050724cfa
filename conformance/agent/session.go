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
	s.args = s.args[:0]
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
	version, err := s.need("version")
	if err != nil {
		return err
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

// need is the number at a key.
func (s *session) need(key string) (uint64, error) {
	if !s.has(key) {
		return 0, refuse(einval, "argument %s is missing", key)
	}
	return parseNum(s.str(key))
}

// num is need with a default.
func (s *session) num(key string, def uint64) (uint64, error) {
	if !s.has(key) {
		return def, nil
	}
	return s.need(key)
}

// numbers reads several numbers; those that are absent stay as they are.
func (s *session) numbers(into map[string]*uint64) error {
	for key, at := range into {
		n, err := s.num(key, *at)
		if err != nil {
			return err
		}
		*at = n
	}
	return nil
}

// needed reads several numbers that must all be there.
func (s *session) needed(into map[string]*uint64) error {
	for key := range into {
		if !s.has(key) {
			return refuse(einval, "argument %s is missing", key)
		}
	}
	return s.numbers(into)
}
