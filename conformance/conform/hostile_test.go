package conform

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// replaced changes the answers to one kind of request.
func replaced(command string, change func(answer string) string) func(request, answer string) string {
	return func(request, answer string) string {
		if strings.Fields(request)[0] == command {
			return change(answer)
		}
		return answer
	}
}

func constant(s string) func(string) string { return func(string) string { return s } }

// An agent that cannot be used is an error, and says why.
func TestUselessAgents(t *testing.T) {
	good := startAgent(t, "sesame")
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	for name, c := range map[string]struct {
		agent string
		token string
		want  string
	}{
		"nobody listens": {closed.Addr().String(), "", "connection refused"},
		"no token":       {good, "", "the token is wrong"},
		"another version": {meddler{good, replaced("hello", constant("ok version=2 agent=x\n")), nil}.start(t),
			"sesame", "speaks version 2 of the protocol, and this program 1"},
		"a refusal of versions": {meddler{
			good, replaced("hello", constant("err 71 this agent speaks version 7\n")), nil,
		}.start(t), "sesame", "version 7"},
		"older than the greeting": {meddler{
			good, replaced("hello", constant("err 38 no command hello\n")), nil,
		}.start(t), "sesame", "older"},
		"another protocol": {meddler{
			good, replaced("hello", constant("220 mail.example.org ESMTP\n")), nil,
		}.start(t), "sesame", "220 mail"},
		"hangs up": {meddler{good, replaced("hello", constant("")), nil}.start(t),
			"sesame", "has hung up"},
		"an endless line": {meddler{
			good, replaced("hello", constant(strings.Repeat("x", 1<<19)+"\n")), nil,
		}.start(t), "sesame", "longer than"},
		"no device": {meddler{
			good, replaced("open", constant("err 19 device: No such device\n")), nil,
		}.start(t), "sesame", "No such device"},
		"no GID": {meddler{good, func(request, answer string) string {
			if strings.HasPrefix(request, "gids") {
				return "ok g=0,other,fe80::1 g=x,v2,::1 g=1,v2,zebra g=2,v2,::\n"
			}
			return answer
		}, nil}.start(t), "sesame", "no RoCE v2 GID"},
		"silence": {meddler{good, nil, func(r string) bool { return strings.HasPrefix(r, "gids") }}.start(t),
			"sesame", "no answer in"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(c.agent)
			o.Agents[0].Token = c.token
			o.Agents[0].Timeout = 2 * time.Minute
			if name == "silence" {
				o.Agents[0].Timeout = 50 * time.Millisecond
			}
			_, err := Run(t.Context(), o)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "sesame")
		})
	}
}

// An agent that lies fails the rows that it lies about; no answer makes the run crash or hang.
func TestLiars(t *testing.T) {
	good := startAgent(t, "")
	for name, c := range map[string]struct {
		command string
		change  func(string) string
		want    string
	}{
		"all is well":             {"check", constant("ok bad=-1\n"), ""},
		"the first byte is wrong": {"check", constant("ok bad=0\n"), "byte 0 of"},
		"no number":               {"check", constant("ok bad=zebra\n"), "zebra"},
		"no answer at all":        {"check", constant("ok\n"), "invalid syntax"},
		"an error without number": {"poll", constant("err\n"), `answer "err"`},
		"too few fields":          {"poll", constant("ok wc=1,2,3\n"), `completion "1,2,3"`},
		"fields that are none":    {"poll", constant("ok wc=a,b,c,d,e,f,g,h,i\n"), "completion"},
		"another status": {"poll",
			func(a string) string { return strings.Replace(a, ",0,", ",12,", 1) }, "RETRY_EXC_ERR"},
		"another work request": {"poll", constant("ok wc=99,0,0,0,0,0x1,0x1,0,0x0\n"), "want id"},
		"more than was asked for": {"poll",
			constant("ok" + strings.Repeat(" wc=99,0,0,0,0,0x1,0x1,0,0x0", 1000) + "\n"), "asked for"},
		"another queue pair": {"qp",
			func(a string) string { return regexp.MustCompile("qpn=0x[0-9a-f]+").ReplaceAllString(a, "qpn=0x2") }, ""},
		"a number of 28 bits": {"qp",
			func(a string) string { return strings.Replace(a, "qpn=0x", "qpn=0xff00000", 1) }, "24 bits"},
		"no queue pair": {"qp", constant("err 12 Cannot allocate memory\n"), "Cannot allocate memory"},
		"a wrong key": {"mr", func(a string) string {
			return regexp.MustCompile("rkey=0x[0-9a-f]+").ReplaceAllString(a, "rkey=0x77")
		}, "REM_ACCESS_ERR"},
		"no key": {"mr", func(a string) string { return strings.Replace(a, "rkey=", "key=", 1) },
			"rkey=none is no number of 32 bits"},
		"another number of object": {"cq", constant("ok id=4000\n"), "no such object"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(meddler{good, replaced(c.command, c.change), nil}.start(t), "errors/success_send",
				"errors/success_write", "errors/success_read")
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			if name == "another queue pair" { // whose packets go nowhere, until the retries have run out
				o.Only = []string{"errors/success_read"}
				cutShort(ctx, t, o)
				return
			}
			res, err := Run(ctx, o)
			require.NoError(t, err)
			require.NoError(t, res.Cut)
			if c.want == "" {
				require.Empty(t, failures(res))
				return
			}
			require.Contains(t, failures(res), c.want)
		})
	}
}

// cutShort runs for a short time, or for one in which the rows are begun where the machine is busy.
// No row passes.
func cutShort(ctx context.Context, t *testing.T, o Options) {
	for most := 100 * time.Millisecond; ; most *= 2 {
		short, stop := context.WithTimeout(ctx, most)
		res, err := Run(short, o)
		stop()
		if err != nil {
			require.NoError(t, ctx.Err(), err)
			continue
		}
		require.Zero(t, res.Report.Count(matrix.Pass))
		if res.Cut != nil { // or the retries have run out
			require.ErrorIs(t, res.Cut, context.DeadlineExceeded)
		}
		return
	}
}

// An agent that dies in the middle of a row: the row fails with the reason, the next ones have new
// sessions.
func TestAgentDies(t *testing.T) {
	good := startAgent(t, "")
	var died atomic.Bool
	o := options(meddler{good, nil, nil}.start(t), "errors/success", "errors/rkey")
	o.Agents[0].Addr = meddler{good, func(request, answer string) string {
		if strings.HasPrefix(request, "post_recv") && died.CompareAndSwap(false, true) {
			return ""
		}
		return answer
	}, nil}.start(t)
	o.Lanes = 1
	res, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, res.Cut)
	require.Equal(t, 1, res.Report.Count(matrix.Fail), failures(res))
	require.Contains(t, failures(res), "success_send as requester")
	require.Contains(t, failures(res), "agent: post_recv: the agent has hung up")
	require.Greater(t, res.Report.Count(matrix.Pass), 10)
}

// One that is gone for good fails all rows that are left, soon; so does one that is too slow.
func TestAgentGone(t *testing.T) {
	good := startAgent(t, "")
	for name, c := range map[string]struct {
		m    func(*atomic.Bool) meddler
		want string
	}{
		"hangs up": {func(gone *atomic.Bool) meddler {
			return meddler{good, func(request, answer string) string {
				if strings.HasPrefix(request, "post_recv") {
					gone.Store(true)
				}
				if gone.Load() {
					return ""
				}
				return answer
			}, nil}
		}, "has hung up"},
		"is silent": {func(gone *atomic.Bool) meddler {
			return meddler{good, nil, func(r string) bool {
				if strings.HasPrefix(r, "post_recv") {
					gone.Store(true)
				}
				return gone.Load()
			}}
		}, "no answer in"},
	} {
		t.Run(name, func(t *testing.T) {
			timeout := 2 * time.Minute
			if name == "is silent" {
				timeout = 200 * time.Millisecond
			}
			var o Options
			var res *Result
			for ; ; timeout *= 2 {
				var gone atomic.Bool
				o = options(c.m(&gone).start(t), "errors")
				o.Lanes = 1
				o.Agents[0].Timeout = timeout
				var err error
				if res, err = Run(t.Context(), o); err != nil && name == "is silent" && !gone.Load() {
					continue // the machine is so busy that the agent, which was there, has not answered in time
				}
				require.NoError(t, err)
				break
			}
			require.NoError(t, res.Cut)
			listed, err := List(o)
			require.NoError(t, err)
			require.Len(t, res.Report.Rows(), len(listed))
			require.Zero(t, res.Report.Count(matrix.Pass))
			require.Contains(t, failures(res), c.want)
			require.Contains(t, failures(res), "not tried: the peer was lost 8 times in a row")
		})
	}
}

// When the context ends the rows so far are there, at once, and the reason.
func TestCut(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	o := options(startAgent(t, ""), "errors")
	o.Lanes = 1
	o.OnRow = func(row matrix.Row) {
		if row.Op == "psn_retry_limit_exceeded" {
			cancel(why)
		}
	}
	res, err := Run(ctx, o)
	require.NoError(t, err)
	require.ErrorIs(t, res.Cut, why)
	require.Empty(t, failures(res))
	rows := res.Report.Rows()
	require.Equal(t, "psn_retry_limit_exceeded", rows[len(rows)-1].Op)
}

// What rows have seen that were on their way then is no failure.
func TestCutInManyLanes(t *testing.T) {
	agent := startAgent(t, "")
	for n := range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		o := options(agent, "operations")
		seen := 0
		o.OnRow = func(row matrix.Row) {
			if row.Result == matrix.Pass {
				seen++
			}
			if seen == 20*(n+1) {
				cancel()
			}
		}
		res, err := Run(ctx, o)
		require.NoError(t, err)
		require.ErrorIs(t, res.Cut, context.Canceled)
		require.Empty(t, failures(res))
		require.GreaterOrEqual(t, res.Report.Count(matrix.Pass), 20*(n+1))
	}
}

// One that is gone when the drills begin fails those, soon, and the table has all rows.
func TestAgentGoneInDrills(t *testing.T) {
	good := startAgent(t, "")
	var gone atomic.Bool
	o := options(meddler{good, func(_, answer string) string {
		if gone.Load() {
			return ""
		}
		return answer
	}, nil}.start(t), "errors/success_send", "drills")
	listed, err := List(o)
	require.NoError(t, err)
	before := 0
	for _, row := range listed {
		if row.Group != drillsGroup {
			before++
		}
	}
	require.NotZero(t, before)
	o.OnRow = func(matrix.Row) {
		if before--; before == 0 { // the row before the first drill
			gone.Store(true)
		}
	}
	res, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, res.Cut)
	require.Len(t, res.Report.Rows(), len(listed))
	require.Contains(t, failures(res), "the agent has hung up")
	require.Contains(t, failures(res), "not tried: the peer was lost 8 times in a row")
}

// Of two agents either may die: the rows say whose device is lost.
func TestOneOfTwoAgentsDies(t *testing.T) {
	for which := range 2 {
		var gone atomic.Bool
		var agents []peer.AgentServer
		for i := range 2 {
			dev, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{loopback(i)}, UDP: udp.Options{DisableGSO: true}})
			require.NoError(t, err)
			at := serveDevice(t, dev)
			if i == which {
				at = meddler{at, func(_, answer string) string {
					if gone.Load() {
						return ""
					}
					return answer
				}, nil}.start(t)
			}
			agents = append(agents, peer.AgentServer{Addr: at, Client: "test"})
		}
		o := Options{Agents: agents, Quick: true, Lanes: 1, Only: []string{"operations/mtu 1024 size 257 ipv4"}}
		o.OnRow = func(matrix.Row) { gone.Store(true) }
		res, err := Run(t.Context(), o)
		require.NoError(t, err)
		require.NoError(t, res.Cut)
		require.NotZero(t, res.Report.Count(matrix.Pass))
		require.Contains(t, failures(res), "the agent has hung up")
	}
}

// An agent that takes its time, and answers, is no fault.
func TestSlowAgent(t *testing.T) {
	good := startAgent(t, "")
	late := func(request, answer string) string {
		time.Sleep(time.Millisecond) // which is what is tested, and nothing waits for it
		return answer
	}
	o := options(meddler{good, late, nil}.start(t), "errors/success")
	res, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Empty(t, failures(res))
	require.NotZero(t, res.Report.Count(matrix.Pass))
}

// An agent that calls itself something evil steers neither a terminal nor a page.
func TestHostileName(t *testing.T) {
	name := "\x1b[2J\u202e<script>alert(1)</script>"
	addr := meddler{startAgent(t, ""), func(request, answer string) string {
		switch strings.Fields(request)[0] {
		case "hello":
			return strings.TrimSpace(answer) + " kernel=" + name + "\n"
		case "open":
			return strings.Replace(answer, "dev=", "fw="+name+" dev="+name, 1)
		}
		return answer
	}, nil}.start(t)
	var said strings.Builder
	o := options(addr, "errors/success_send as requester")
	o.Logf = func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) }
	res, err := Run(t.Context(), o)
	require.NoError(t, err)
	res.Report.WriteTable(&said)
	require.NoError(t, WriteHTML(&said, res.Document()))
	require.NoError(t, WriteMarkdown(&said, res.Document()))
	require.NotContains(t, said.String(), "\x1b")
	require.NotContains(t, said.String(), "\u202e")
	_, pages, _ := strings.Cut(said.String(), "<!doctype html>")
	require.NotContains(t, pages, "<script>")
	require.Contains(t, pages, "?[2J?&lt;script&gt;alert(1)")
}
