package verbs

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	dialTimeout = time.Minute
	// callTimeout is how long an answer may take, in a guest that has no CPU for a while;
	// waiting calls add their own limit.
	callTimeout = 2 * time.Minute
	maxLine     = 1 << 18
)

// Client is a session with an agent.
type Client struct {
	mu sync.Mutex
	nc net.Conn
	r  *bufio.Reader
}

// Error is the agent's refusal of a call: Errno is what libibverbs reported.
type Error struct {
	Call  string
	Errno syscall.Errno
	Text  string
}

func (e *Error) Error() string { return fmt.Sprintf("verbsd: %s: %s", e.Call, e.Text) }

// Unwrap makes errors.Is(err, syscall.EINVAL) work.
func (e *Error) Unwrap() error { return e.Errno }

// Arg is one argument of a call.
type Arg struct {
	Key   string
	Value any
}

// Reply is the answer to a call.
type Reply struct{ words []Arg }

// Dial opens a session with the agent at addr and opens the RDMA device dev.
func Dial(ctx context.Context, addr, dev string) (*Client, Reply, error) {
	d := net.Dialer{Timeout: dialTimeout}
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, Reply{}, fmt.Errorf("verbsd: %w", err)
	}
	c := &Client{nc: nc, r: bufio.NewReaderSize(nc, maxLine)}
	r, err := c.Call("open", Arg{"dev", dev})
	if err != nil {
		nc.Close()
		return nil, Reply{}, err
	}
	return c, r, nil
}

// Close ends the session.
func (c *Client) Close() error { return c.nc.Close() }

// Call makes one request and waits for its answer.
func (c *Client) Call(name string, args ...Arg) (Reply, error) {
	return c.CallWait(0, name, args...)
}

// CallWait is Call for a request that may take wait longer, in the agent.
func (c *Client) CallWait(wait time.Duration, name string, args ...Arg) (Reply, error) {
	var b strings.Builder
	b.WriteString(name)
	for _, a := range args {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
	}
	line := b.String()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.nc.SetDeadline(time.Now().Add(callTimeout + wait)); err != nil {
		return Reply{}, fmt.Errorf("verbsd: %s: %w", name, err)
	}
	if _, err := c.nc.Write([]byte(line + "\n")); err != nil {
		return Reply{}, fmt.Errorf("verbsd: %s: %w", name, err)
	}
	answer, err := c.r.ReadString('\n')
	if err != nil {
		return Reply{}, fmt.Errorf("verbsd: %s: %w", name, err)
	}
	return parseReply(line, strings.TrimSuffix(answer, "\n"))
}

func parseReply(call, answer string) (Reply, error) {
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
		return Reply{}, &Error{Call: call, Errno: syscall.Errno(n), Text: strings.Join(f[2:], " ")}
	case len(f) >= 1 && f[0] == "ok":
		var r Reply
		for _, w := range f[1:] {
			k, v, ok := strings.Cut(w, "=")
			if !ok {
				return Reply{}, fmt.Errorf("verbsd: %s: answer %q", call, answer)
			}
			r.words = append(r.words, Arg{k, v})
		}
		return r, nil
	}
	return Reply{}, fmt.Errorf("verbsd: %s: answer %q", call, answer)
}

// Str returns the value of a key, or "".
func (r Reply) Str(key string) string {
	for _, w := range r.words {
		if w.Key == key {
			return w.Value.(string)
		}
	}
	return ""
}

// All returns the values of a key that occurs several times.
func (r Reply) All(key string) []string {
	var out []string
	for _, w := range r.words {
		if w.Key == key {
			out = append(out, w.Value.(string))
		}
	}
	return out
}

// Num returns the number at key, or 0 if there is none.
func (r Reply) Num(key string) uint64 {
	n, _ := strconv.ParseUint(r.Str(key), 0, 64)
	return n
}

// Map returns all keys with numbers.
func (r Reply) Map() map[string]uint64 {
	m := map[string]uint64{}
	for _, w := range r.words {
		if n, err := strconv.ParseUint(w.Value.(string), 0, 64); err == nil {
			m[w.Key] = n
		}
	}
	return m
}

// WC is a work completion, as ibv_wc.
type WC struct {
	WRID      uint64
	Status    int
	Opcode    int
	VendorErr uint32
	ByteLen   uint32
	QPN       uint32
	SrcQP     uint32
	Flags     uint32
	Imm       uint32 // host order; the invalidated key with WithInv
}

// Poll waits until a CQ has had min completions, or the time is up, and returns what
// there was, at most max.
func (c *Client) Poll(cq uint64, min, max int, wait time.Duration) ([]WC, error) {
	r, err := c.CallWait(wait, "poll", Arg{"cq", cq}, Arg{"min", min}, Arg{"max", max}, Arg{"timeout_ms", wait.Milliseconds()})
	if err != nil {
		return nil, err
	}
	var out []WC
	for _, s := range r.All("wc") {
		f := strings.Split(s, ",")
		if len(f) != 9 {
			return nil, fmt.Errorf("verbsd: completion %q", s)
		}
		var n [9]uint64
		for i := range f {
			if n[i], err = strconv.ParseUint(f[i], 0, 64); err != nil {
				return nil, fmt.Errorf("verbsd: completion %q: %w", s, err)
			}
		}
		out = append(out, WC{
			WRID: n[0], Status: int(n[1]), Opcode: int(n[2]), VendorErr: uint32(n[3]), ByteLen: uint32(n[4]),
			QPN: uint32(n[5]), SrcQP: uint32(n[6]), Flags: uint32(n[7]), Imm: uint32(n[8]),
		})
	}
	return out, nil
}
