package roce_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/link/packet"
	"github.com/goroce/goroce/roce/rsocket"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// childEnv makes the test binary a process at an address, which does what lines of its
// standard input say, and answers each by a line.
const childEnv = "GOROCE_TEST_PROCESS"

func TestMain(m *testing.M) {
	if s := os.Getenv(childEnv); s != "" {
		c := &childProcess{addr: netip.MustParseAddr(s), streams: map[string]*stream{}}
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			out, err := c.do(strings.Fields(in.Text()))
			if err != nil {
				out = "error: " + err.Error()
			}
			fmt.Println(out)
		}
		return
	}
	os.Exit(m.Run())
}

const (
	// messageBytes is the length of the messages of a stream, several packets.
	messageBytes = 20_000
	groupQKey    = 0x1234
)

// childProcess is the state of a process.
type childProcess struct {
	addr    netip.Addr
	dev     *verbs.Device
	ln      *roce.Listener
	srv     roce.Server
	streams map[string]*stream
	ud      *datagrams
}

func (c *childProcess) do(words []string) (string, error) {
	ctx := context.Background()
	verb, arg := words[0], ""
	if len(words) > 1 {
		arg = words[1]
	}
	switch verb {
	case "open": // on a link
		cfg := verbs.Config{Addrs: []netip.Addr{c.addr}}
		if arg == "packet" {
			l, err := packet.Open(packet.Options{Addrs: cfg.Addrs})
			if err != nil {
				return "", err
			}
			cfg.Link = l
		}
		var err error
		c.dev, err = verbs.Open(cfg)
		return "ok", err
	case "listen": // and echo; port 0 is any
		lc := roce.ListenConfig{ConnConfig: roce.ConnConfig{Device: c.dev, RecvBytes: messageBytes}}
		ln, err := lc.Listen(ctx, c.addr.String()+":"+arg)
		if err != nil {
			return "", err
		}
		c.ln = ln
		c.srv.Handler = echo
		go func() { _ = c.srv.Serve(ctx, ln) }()
		for !roce.Serving(&c.srv) { // or what ends it next finds nothing
			runtime.Gosched()
		}
		return fmt.Sprint(ln.Addr().Port()), nil
	case "http": // over rsocket: every request is answered by its body
		ln, err := (&rsocket.ListenConfig{Device: c.dev}).ListenAddr(
			netip.MustParseAddrPort(c.addr.String() + ":" + arg))
		if err != nil {
			return "", err
		}
		go func() {
			_ = http.Serve(ln,
				http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
		}()
		return fmt.Sprint(ln.Addr().(rsocket.Addr).Port()), nil
	case "dial": // a port, and exchange messages with it from then on, or with one word more send none
		to := arg
		if !strings.Contains(to, ":") {
			to = c.addr.String() + ":" + to
		}
		d := roce.Dialer{ConnConfig: roce.ConnConfig{Device: c.dev, RecvBytes: messageBytes}}
		conn, err := d.Dial(ctx, to)
		if err != nil {
			return "", err
		}
		s := &stream{conn: conn}
		c.streams[arg] = s
		if len(words) < 3 {
			go s.run(ctx)
		}
		return "ok", nil
	case "count": // messages that came back right from a port
		s := c.streams[arg]
		if err := s.err.Load(); err != nil {
			return "", *err
		}
		return fmt.Sprint(s.n.Load()), nil
	case "ud":
		var err error
		c.ud, err = newDatagrams(c.dev, ib.GIDFromAddr(netip.MustParseAddr(arg)))
		if err != nil {
			return "", err
		}
		return fmt.Sprint(uint32(c.ud.qp.Num())), nil
	case "recv":
		return c.ud.recv(ctx)
	case "close":
		return "ok", c.dev.Close()
	case "end":
		return "", c.end(ctx, arg)
	}
	return "", fmt.Errorf("what is %q", verb)
}

// echo sends back what comes.
func echo(ctx context.Context, c *roce.Conn) error {
	b := make([]byte, messageBytes)
	for {
		n, err := c.Recv(ctx, b)
		if err != nil {
			return err
		}
		if err := c.Send(ctx, b[:n]); err != nil {
			return err
		}
	}
}

// stream is a connection with a message under way, again and again.
type stream struct {
	conn *roce.Conn
	n    atomic.Int64
	err  atomic.Pointer[error]
}

func (s *stream) run(ctx context.Context) {
	err := func() error {
		random := rand.NewChaCha8([32]byte{byte(os.Getpid()), byte(os.Getpid() >> 8)})
		out, in := make([]byte, messageBytes), make([]byte, messageBytes)
		for {
			_, _ = random.Read(out)
			if err := s.conn.Send(ctx, out); err != nil {
				return err
			}
			n, err := s.conn.Recv(ctx, in)
			if err != nil {
				return err
			}
			if !bytes.Equal(in[:n], out) {
				return fmt.Errorf("message %d came back wrong", s.n.Load())
			}
			s.n.Add(1)
		}
	}()
	s.err.Store(&err)
}

// datagrams is a UD queue pair in a multicast group.
type datagrams struct {
	pd  *verbs.PD
	qp  *verbs.QP
	cq  *verbs.CQ
	buf []byte
	mr  *verbs.MR
}

func newDatagrams(d *verbs.Device, group ib.GID) (*datagrams, error) {
	u := &datagrams{buf: make([]byte, 256)}
	var err error
	if u.pd, err = d.AllocPD(); err != nil {
		return nil, err
	}
	if u.cq, err = d.CreateCQ(16, nil); err != nil {
		return nil, err
	}
	if u.mr, err = u.pd.RegisterMR(u.buf, verbs.LocalWrite, nil); err != nil {
		return nil, err
	}
	if u.qp, err = u.pd.CreateQP(verbs.QPInitAttr{
		Type: verbs.UD, SendCQ: u.cq, Caps: verbs.QPCaps{MaxInline: 64},
	}); err != nil {
		return nil, err
	}
	if err = u.qp.Activate(groupQKey); err != nil {
		return nil, err
	}
	if err = u.qp.AttachMulticast(group, 0); err != nil {
		return nil, err
	}
	return u, u.post()
}

func (u *datagrams) post() error {
	return u.qp.PostRecv(&verbs.RecvWR{SGList: []verbs.SGE{u.mr.SGE(0, len(u.buf))}})
}

// recv returns the next datagram.
func (u *datagrams) recv(ctx context.Context) (string, error) {
	var wcs [1]verbs.WC
	if _, err := u.cq.Wait(ctx, wcs[:]); err != nil {
		return "", err
	}
	if err := verbs.WCError(&wcs[0]); err != nil {
		return "", err
	}
	s := string(u.buf[ib.GRHBytes:wcs[0].ByteLen])
	return s, u.post()
}

// send sends a datagram.
func (u *datagrams) send(t testing.TB, ah *verbs.AH, to ib.QPN, s string) {
	t.Helper()
	require.NoError(t, u.qp.PostSend(&verbs.SendWR{
		Opcode: verbs.WRSend, Flags: verbs.SendInline, Inline: []byte(s), AH: ah, RemoteQPN: to, RemoteQKey: groupQKey,
	}))
}

// process is a child.
type process struct {
	t    testing.TB
	mu   sync.Mutex // of a question and its answer
	cmd  *exec.Cmd
	in   io.Writer
	out  *bufio.Reader
	addr netip.Addr
	port string
}

// startProcess starts a process of a user, 0 for that of the test.
func startProcess(t testing.TB, addr netip.Addr, uid uint32) *process {
	t.Helper()
	p := &process{t: t, addr: addr, cmd: exec.Command("/proc/self/exe")} // other users cannot go where the file is
	if uid != 0 {
		unix.SetAttr(p.cmd, &unix.SysProcAttr{Credential: &unix.Credential{Uid: uid, Gid: uid}})
	}
	p.cmd.Env = append(os.Environ(), childEnv+"="+addr.String())
	p.cmd.Stderr = os.Stderr
	var err error
	p.in, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.out = bufio.NewReader(out)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(p.kill)
	return p
}

// ask has the process do something, and returns its answer.
func (p *process) ask(words ...string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := fmt.Fprintln(p.in, strings.Join(words, " ")); err != nil {
		return "", err
	}
	s, err := p.out.ReadString('\n')
	return strings.TrimSpace(s), err
}

// say is ask for what must succeed.
func (p *process) say(words ...string) string {
	p.t.Helper()
	s, err := p.ask(words...)
	require.NoError(p.t, err)
	require.NotContains(p.t, s, "error", "%v", words)
	return s
}

// kill ends the process by SIGKILL and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

var processAddrs atomic.Uint32

// processAddr returns an address that no other test has, nor another run of them.
func processAddr() netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(os.Getpid())<<8|processAddrs.Add(1))
	return netip.AddrFrom4([4]byte{127, b[1] | 0x80, b[2], b[3]})
}
