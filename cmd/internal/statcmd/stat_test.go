package statcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/cmd/internal/toolcheck"
	"github.com/goroce/goroce/roce/stat"
	"github.com/stretchr/testify/require"
)

// process is one that sends and receives so much each time that it is asked, which is once a
// second.
func process(pid int, name, addr string) asker {
	n := uint64(0)
	return asker{pid: pid, user: 1000, ask: func(ctx context.Context) (*stat.Process, error) {
		if err := ctx.Err(); err != nil {
			return nil, err // too late
		}
		n++
		return &stat.Process{PID: pid, User: 1000, Command: name, Time: time.Unix(int64(n), 0), Devices: []stat.Device{{
			Link: "udp", GIDs: []string{addr}, State: "ACTIVE", MTU: 1024, NumQPs: 3,
			Conns: stat.Conns{Conns: 2, Listeners: 1}, Memory: stat.Memory{PDs: 1, Regions: 4},
			Counters: map[string]uint64{"sent_pkts": 1000 * n, "sent_bytes": 1 << 20 * n, "rcvd_pkts": 7 * n,
				"rcvd_bytes": 500 * n, "retry_exceeded_err": 1},
			QPs: []stat.QP{
				{Number: 17, Type: "RC", State: "RTS", Remote: 18, RQPSN: 5, SQPSN: 6, Local: addr,
					Peer: "10.0.0.2", MTU: 1024, RTT: 12345, Retransmitted: 3, Timeouts: 1},
				{Number: 19, Type: "UD", State: "RTS", SQPSN: 9},
			},
		}}}, nil
	}}
}

// hung is a process that says nothing until the context ends.
func hung(pid int) asker {
	return asker{pid: pid, user: 0, ask: func(ctx context.Context) (*stat.Process, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
}

// look runs the command over processes.
func look(t *testing.T, s tool.Screen, all []asker, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), &tool.Env{Stdout: &out, Stderr: &out, Screen: s},
		func() ([]asker, error) { return all, nil }, args)
	return out.String(), err
}

func TestTable(t *testing.T) {
	out, err := look(t, tool.Screen{}, []asker{process(77, "server", "10.0.0.1"), process(8, "a\x1b[2J", "10.0.0.9")})
	require.NoError(t, err)
	require.Equal(t, ""+
		"PID  COMMAND  DEVICE        STATE    MTU  QPS  CONN      TX    RX  TX-PKTS  RX-PKTS  RESENT  RNR  ERRORS\n"+
		" 77  server   udp 10.0.0.1  ACTIVE  1024    3     2  1.0MiB  500B     1.0k        7       0    0       1\n"+
		"  8  a?[2J    udp 10.0.0.9  ACTIVE  1024    3     2  1.0MiB  500B     1.0k        7       0    0       1\n",
		out)
	out, err = look(t, tool.Screen{Width: 20}, []asker{process(77, "server", "10.0.0.1")})
	require.NoError(t, err)
	for line := range strings.Lines(out) {
		require.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), 20)
	}
	out, err = look(t, tool.Screen{}, nil)
	require.NoError(t, err)
	require.Contains(t, out, "no process tells of its devices")
}

// With --watch there are rates from the second look on, and a live screen is drawn anew.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		out, err := look(t, tool.Screen{}, []asker{process(77, "server", "10.0.0.1")}, "-w", "-n", "3", "-i", "2")
		require.NoError(t, err)
		require.Equal(t, 4*time.Second, time.Since(begin))
		require.Equal(t, 3, strings.Count(out, "COMMAND"))
		require.Equal(t, 2, strings.Count(out, " 8.4Mb/s  4.0kb/s   1.0k/s      7/s     0/s  0/s       1\n"), out)
		require.NotContains(t, out, "\x1b")
		out, err = look(t, tool.Screen{Height: 3, Width: 80},
			[]asker{process(1, "a", "10.0.0.1"), process(2, "b", "10.0.0.1"), process(3, "c", "10.0.0.1")},
			"-w", "-n", "2")
		require.NoError(t, err)
		require.Equal(t, 2, strings.Count(out, clearScreen))
		require.Equal(t, 2*2, strings.Count(out, "\n"), "as many lines as the screen has, but one")
	})
}

// A process that hangs keeps nobody waiting for longer than a second, and is named.
func TestHungProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []asker
		for i := range 99 { // of another user, and found first
			all = append(all, hung(1000+i))
		}
		all = append(all, process(77, "server", "10.0.0.1"), hung(2000))
		begin := time.Now()
		out, err := look(t, tool.Screen{}, all)
		require.NoError(t, err)
		require.Equal(t, answerTime, time.Since(begin))
		require.Contains(t, out, " 77  server")
		require.Equal(t, 100, strings.Count(out, "does not answer: context deadline exceeded"))
	})
	gone := asker{pid: 5,
		ask: func(context.Context) (*stat.Process, error) { return nil, errors.New("connection refused") }}
	out, err := look(t, tool.Screen{}, []asker{gone})
	require.NoError(t, err)
	require.Equal(t, "process 5 of user 0 does not answer: connection refused\n", out)
}

func TestQPs(t *testing.T) {
	out, err := look(t, tool.Screen{}, []asker{process(77, "server", "10.0.0.1")}, "qp")
	require.NoError(t, err)
	require.Equal(t, ""+
		"link udp_10.0.0.1/1 lqpn 17 rqpn 18 type RC state RTS rq-psn 5 sq-psn 6 path-mtu 1024 local 10.0.0.1 peer 10.0.0.2 rtt 0.012ms retransmitted 3 timeouts 1 pid 77 comm server\n"+
		"link udp_10.0.0.1/1 lqpn 19 type UD state RTS rq-psn 0 sq-psn 9 pid 77 comm server\n"+
		"# and 1 more\n", out)
}

func TestCounters(t *testing.T) {
	out, err := look(t, tool.Screen{}, []asker{process(77, "server", "10.0.0.1")}, "counters")
	require.NoError(t, err)
	require.Contains(t, out,
		"link udp_10.0.0.1/1 pid 77 comm server\n    sent_pkts                                1000\n")
	require.Contains(t, out, "connections 2, half open 0, timewait 0, listeners 1; pd 1, mr 4, mw 0, qp 3\n")
	require.NotContains(t, out, "duplicate_request")
	out, err = look(t, tool.Screen{}, []asker{process(77, "server", "10.0.0.1")}, "-a", "counters")
	require.NoError(t, err)
	for _, name := range stat.CounterNames() {
		require.Contains(t, out, "    "+name+" ")
	}
}

func TestJSON(t *testing.T) {
	out, err := look(t, tool.Screen{Colour: true, Width: 20},
		[]asker{process(77, "server", "10.0.0.1"), process(78, "other", "10.0.0.2")}, "--json", "--pid", "77")
	require.NoError(t, err)
	var s sample
	require.NoError(t, json.Unmarshal([]byte(out), &s))
	require.Len(t, s.Processes, 1)
	require.Equal(t, 77, s.Processes[0].PID)
	require.EqualValues(t, 1000, s.Processes[0].Devices[0].Counters["sent_pkts"])
	require.Empty(t, s.Silent)
}

// Several sockets of a process are one process; a counter that went back, or a device that is new,
// has no rate.
func TestSamples(t *testing.T) {
	one := process(77, "server", "10.0.0.1")
	both := gather(t.Context(), []asker{one, process(77, "server", "10.0.0.2")}, 0)
	require.Len(t, both.Processes, 1)
	require.Len(t, both.Processes[0].Devices, 2)
	now := gather(t.Context(), []asker{one}, 0)
	require.Len(t, ratesOf(both, now), 1)
	require.Empty(t, ratesOf(now, both), "time went back")
	now.Processes[0].Devices[0].Counters["sent_pkts"] = 0
	require.Empty(t, ratesOf(both, now))
	require.Empty(t, ratesOf(nil, now))
	p := now.Processes[0]
	p.Devices = append(p.Devices, p.Devices[0])
	require.NotEqual(t, key(p, 0), key(p, 1))
}

func TestScaled(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 999: "999", 1000: "1.0k", 99999: "100.0k", 123456: "123k",
		2.5e9: "2.5G", 1e18: "1000P"} {
		require.Equal(t, want, count(n))
	}
	require.Equal(t, "1.0Ki", scaled(1024, 1024))
}

func TestRefused(t *testing.T) {
	for args, want := range map[string]string{"everything": "is expected", "qp counters": "is expected",
		"-n 3": "needs --watch", "-z": "unknown", "-i -1": "not a number"} {
		_, err := look(t, tool.Screen{}, nil, strings.Fields(args)...)
		var misuse *getopt.Error
		require.ErrorAs(t, err, &misuse, args)
		require.ErrorContains(t, err, want)
	}
	_, err := look(t, tool.Screen{}, nil, "-h")
	var text *tool.Text
	require.ErrorAs(t, err, &text)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	require.ErrorContains(t, run(ctx, &tool.Env{Stdout: &bytes.Buffer{}}, findAll, nil), "interrupted")
}

// A tool with --stat, or with GOROCE_STAT in the environment, is seen while it has its device.
func TestToolsAreSeen(t *testing.T) {
	for _, c := range []struct {
		flag bool
		env  string
		seen bool
	}{{false, "", false}, {false, "0", false}, {true, "", true}, {false, "1", true}} {
		t.Run(fmt.Sprint(c.flag, c.env), func(t *testing.T) {
			t.Setenv("GOROCE_STAT", c.env)
			o := tool.DeviceOptions{Addr: toolcheck.Addr(t).String(), Stat: c.flag}
			place, err := o.Choose("", false)
			require.NoError(t, err)
			_, release, _, err := o.Open(&tool.Env{Stderr: &bytes.Buffer{}}, place)
			require.NoError(t, err)
			seen := func() bool {
				var out bytes.Buffer
				require.NoError(t, Command().Run(t.Context(), &tool.Env{Stdout: &out}, nil))
				return strings.Contains(out.String(), "udp "+o.Addr)
			}
			require.Equal(t, c.seen, seen())
			require.NoError(t, release())
			require.False(t, seen())
		})
	}
}
