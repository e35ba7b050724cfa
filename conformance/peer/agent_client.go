package peer

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
)

const (
	// AgentTimeout is how long an answer may take, in a guest that has no CPU for a while;
	// waiting calls add their own limit.
	AgentTimeout = 2 * time.Minute
	// AgentMaxLine is the longest request and the longest answer, in bytes.
	AgentMaxLine = 1 << 18
)

// AgentClient is a session with an agent.
type AgentClient struct {
	mu      sync.Mutex
	nc      net.Conn
	r       *bufio.Reader
	timeout time.Duration
	hello   AgentHello
	stop    func() bool // of what ends the session with its context
	broken  error       // why nothing more can be asked
}

// AgentServer says where an agent is, and how to talk to it.
type AgentServer struct {
	Addr  string // host and TCP port
	Dev   string // the RDMA device; empty lets the agent choose
	Token string // what the agent was started with; empty if with none
	// Client names the program that asks. Sessions of the same client may be open at the same
	// time, and those of different ones not.
	Client string
	// Timeout is how long an answer may take; 0 is AgentTimeout.
	Timeout time.Duration
}

// AgentError is the agent's refusal of a call: Errno is what libibverbs reported.
type AgentError struct {
	Call  string
	Errno syscall.Errno
	Text  string
}

func (e *AgentError) Error() string { return fmt.Sprintf("agent: %s: %s", e.Call, e.Text) }

// Unwrap makes errors.Is(err, syscall.EINVAL) work.
func (e *AgentError) Unwrap() error { return e.Errno }

// AgentArg is one argument of a call.
type AgentArg struct {
	Key   string
	Value any
}

// AgentReply is the answer to a call.
type AgentReply struct{ words []AgentArg }

// DialAgent opens a session with an agent and opens the RDMA device. The session ends with ctx.
func DialAgent(ctx context.Context, a AgentServer) (*AgentClient, AgentReply, error) {
	timeout := cmp.Or(a.Timeout, AgentTimeout)
	d := net.Dialer{Timeout: timeout}
	nc, err := d.DialContext(ctx, "tcp", a.Addr)
	if err != nil {
		return nil, AgentReply{}, fmt.Errorf("agent: %w", err)
	}
	c := &AgentClient{nc: nc, r: bufio.NewReaderSize(nc, 1<<16), timeout: timeout}
	c.stop = context.AfterFunc(ctx, func() { nc.Close() })
	if err := c.greet(a); err != nil {
		c.Close()
		return nil, AgentReply{}, err
	}
	var args []AgentArg
	if a.Dev != "" {
		args = append(args, AgentArg{"dev", a.Dev})
	}
	r, err := c.Call("open", args...)
	if err != nil {
		c.Close()
		return nil, AgentReply{}, err
	}
	return c, r, nil
}

// Close ends the session.
func (c *AgentClient) Close() error {
	c.stop()
	return c.nc.Close()
}

// Broken is the error after which nothing more can be asked: the agent has hung up, did not answer
// in time, or not in its language. A refusal is none.
func (c *AgentClient) Broken() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

// Call makes one request and waits for its answer.
func (c *AgentClient) Call(name string, args ...AgentArg) (AgentReply, error) {
	return c.CallWait(0, name, args...)
}

// CallWait is Call for a request that may take wait longer, in the agent.
func (c *AgentClient) CallWait(wait time.Duration, name string, args ...AgentArg) (AgentReply, error) {
	var b strings.Builder
	b.WriteString(name)
	for _, a := range args {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
	}
	line := b.String()
	if len(line) >= AgentMaxLine {
		return AgentReply{},
			fmt.Errorf("agent: %s: a request of %d bytes, and %d is the limit", name, len(line), AgentMaxLine)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return AgentReply{}, c.broken
	}
	// After an error nobody knows which answer comes next.
	answer, err := c.exchange(line, c.timeout+wait)
	if err != nil {
		c.broken = fmt.Errorf("agent: %s: %w", name, err)
		return AgentReply{}, c.broken
	}
	shown := line
	if name == "hello" {
		shown = name // the rest has the token in it
	}
	r, err := parseAgentReply(shown, answer)
	var refusal *AgentError
	if err != nil && !errors.As(err, &refusal) {
		c.broken = err
	}
	return r, err
}

// exchange sends a line and reads the one that answers it.
func (c *AgentClient) exchange(line string, limit time.Duration) (string, error) {
	if err := c.nc.SetDeadline(time.Now().Add(limit)); err != nil {
		return "", err
	}
	if _, err := c.nc.Write([]byte(line + "\n")); err != nil {
		return "", err
	}
	var answer []byte
	for {
		part, err := c.r.ReadSlice('\n')
		answer = append(answer, part...)
		switch {
		case len(answer) > AgentMaxLine:
			return "", fmt.Errorf("an answer longer than %d bytes", AgentMaxLine)
		case err == nil:
			return Printable(strings.TrimSuffix(string(answer), "\n")), nil
		case errors.Is(err, io.EOF):
			return "", errors.New("the agent has hung up")
		case errors.Is(err, os.ErrDeadlineExceeded):
			return "", fmt.Errorf("no answer in %v", limit)
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", err
		}
	}
}

// Printable is text from a peer without what could steer a terminal or turn the direction of
// writing: each such character, and each byte that is no UTF-8, is a question mark.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || unicode.IsPrint(r) && r != unicode.ReplacementChar {
			return r
		}
		return '?'
	}, s)
}

func parseAgentReply(call, answer string) (AgentReply, error) {
	if len(call) > 200 {
		call = call[:200] + "..."
	}
	f := strings.Fields(answer)
	switch {
	case len(f) >= 2 && f[0] == "err":
		n, err := strconv.Atoi(f[1])
		if err != nil {
			break
		}
		return AgentReply{}, &AgentError{Call: call, Errno: syscall.Errno(n), Text: strings.Join(f[2:], " ")}
	case len(f) >= 1 && f[0] == "ok":
		var r AgentReply
		for _, w := range f[1:] {
			k, v, ok := strings.Cut(w, "=")
			if !ok {
				return AgentReply{}, fmt.Errorf("agent: %s: answer %q", call, answer)
			}
			r.words = append(r.words, AgentArg{k, v})
		}
		return r, nil
	}
	return AgentReply{}, fmt.Errorf("agent: %s: answer %q", call, answer)
}

// Str returns the value of a key, or "".
func (r AgentReply) Str(key string) string {
	for _, w := range r.words {
		if w.Key == key {
			return w.Value.(string)
		}
	}
	return ""
}

// All returns the values of a key that occurs several times.
func (r AgentReply) All(key string) []string {
	var out []string
	for _, w := range r.words {
		if w.Key == key {
			out = append(out, w.Value.(string))
		}
	}
	return out
}

// Bits returns the number at key, which must be there and have no more than so many bits.
func (r AgentReply) Bits(key string, bits int) (uint64, error) {
	n, err := strconv.ParseUint(r.Str(key), 0, bits)
	if err != nil {
		return 0, fmt.Errorf("agent: %s=%s is no number of %d bits", key, r.quoted(key), bits)
	}
	return n, nil
}

// Num returns the number at key, or 0 if there is none.
func (r AgentReply) Num(key string) uint64 {
	n, _ := strconv.ParseUint(r.Str(key), 0, 64)
	return n
}

// Map returns all keys with numbers.
func (r AgentReply) Map() map[string]uint64 {
	m := map[string]uint64{}
	for _, w := range r.words {
		if n, err := strconv.ParseUint(w.Value.(string), 0, 64); err == nil {
			m[w.Key] = n
		}
	}
	return m
}

// Poll waits until a CQ has had min completions, or the time is up, and returns what
// there was, at most max.
func (c *AgentClient) Poll(cq uint64, min, max int, wait time.Duration) ([]WC, error) {
	r, err := c.CallWait(wait, "poll", AgentArg{"cq", cq}, AgentArg{"min", min}, AgentArg{"max", max},
		AgentArg{"timeout_ms", wait.Milliseconds()})
	if err != nil {
		return nil, err
	}
	var out []WC
	if n := len(r.All("wc")); n > max {
		return nil, fmt.Errorf("agent: %d completions, and %d at most were asked for", n, max)
	}
	for _, s := range r.All("wc") {
		f := strings.Split(s, ",")
		if len(f) != 9 {
			return nil, fmt.Errorf("agent: completion %q", s)
		}
		var n [9]uint64
		for i := range f {
			if n[i], err = strconv.ParseUint(f[i], 0, 64); err != nil {
				return nil, fmt.Errorf("agent: completion %q: %w", s, err)
			}
		}
		out = append(out, WC{ // n[3] is the vendor's error
			ID: n[0], Status: Status(n[1]), Opcode: int(n[2]), ByteLen: int(uint32(n[4])), QPN: uint32(n[5]),
			SrcQP: uint32(n[6]), Flags: int(uint32(n[7])), Imm: uint32(n[8]),
		})
	}
	return out, nil
}
