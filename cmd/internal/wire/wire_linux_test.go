package wire

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/cmd/internal/toolcheck"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// giveUp bounds what takes moments.
const giveUp = 2 * time.Minute

// lane is two machines, and a third between them whose two interfaces nothing joins yet.
type lane struct {
	t        *testing.T
	a, b     *linktest.Namespace
	mid      *linktest.Namespace
	toA, toB string
	addrs    map[bool][2]netip.Addr // by: IPv6
}

func newLane(t *testing.T) *lane {
	l := &lane{t: t, a: linktest.NewNamespace(t), b: linktest.NewNamespace(t), mid: linktest.NewNamespace(t),
		toA: "toa", toB: "tob",
		addrs: map[bool][2]netip.Addr{
			false: {netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("10.96.0.2")},
			true:  {netip.MustParseAddr("fd96::1"), netip.MustParseAddr("fd96::2")},
		}}
	for i, x := range []struct {
		ns   *linktest.Namespace
		name string
	}{{l.a, l.toA}, {l.b, l.toB}} {
		index := [2]string{"11", "21"}[i]
		x.ns.Run("ip", "link", "add", "veth0", "index", index, "mtu", "1500", "type", "veth", "peer", "name",
			x.name, "index", index+"1", "mtu", "1500", "netns", l.mid.Path())
		x.ns.SetSysctl("ipv6/conf/veth0/accept_dad", 0)
		x.ns.IP("addr add "+l.addrs[false][i].String()+"/24 dev veth0",
			"addr add "+l.addrs[true][i].String()+"/64 dev veth0 nodad", "link set veth0 up")
		l.mid.SetSysctl("ipv6/conf/"+x.name+"/disable_ipv6", 1)
		l.mid.IP("link set " + x.name + " up")
		if linktest.Before(t, 6, 2) { // as the command says there
			x.ns.Run("ethtool", "-K", "veth0", "tx-udp-segmentation", "off")
		}
	}
	return l
}

// join runs the command until the returned function is called, which returns its counters.
func (l *lane) join(args ...string) (end func() report) {
	l.t.Helper()
	var out, errs toolcheck.Output
	ctx, cancel := context.WithCancel(l.t.Context())
	done := make(chan error, 1)
	go l.mid.Do(func() {
		done <- Command().Run(ctx, &tool.Env{Stdout: &out, Stderr: &errs},
			append([]string{"--json", l.toA, l.toB}, args...))
	})
	l.t.Cleanup(cancel)
	for deadline := time.Now().Add(giveUp); !strings.Contains(errs.String(), "are joined"); {
		select {
		case err := <-done:
			require.NoError(l.t, err)
			require.FailNow(l.t, "it has ended")
		case <-time.After(time.Millisecond):
		}
		require.True(l.t, time.Now().Before(deadline))
	}
	linktest.AwaitPath(l.t, l.a, l.addrs[false][0], l.b, l.addrs[false][1])
	linktest.AwaitPath(l.t, l.a, l.addrs[true][0], l.b, l.addrs[true][1])
	return func() (r report) {
		cancel()
		require.NoError(l.t, <-done)
		text := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.NoError(l.t, json.Unmarshal([]byte(text[len(text)-1]), &r), out.String())
		return r
	}
}

// side is one end of a connection.
type side struct {
	device *verbs.Device
	qp     *verbs.QP
	cq     *verbs.CQ
	mr     *verbs.MR
	took   time.Duration
}

const transfer = 60 << 10 // 60 packets of path MTU 1024

func (l *lane) open(ns *linktest.Namespace, a netip.Addr) (s side) {
	l.t.Helper()
	var link *udp.Link
	var err error
	ns.Do(func() { link, err = udp.Open([]netip.Addr{a}, udp.Options{}) })
	require.NoError(l.t, err)
	// The whole WRITE is in flight at once, and has one acknowledgement.
	s.device, err = verbs.Open(verbs.Config{
		Link: link, Tuning: transport.Tuning{MaxUnackedPackets: transport.DefaultMaxUnackedPackets},
	})
	require.NoError(l.t, err)
	l.t.Cleanup(func() { s.device.Close() })
	pd, err := s.device.AllocPD()
	require.NoError(l.t, err)
	s.cq, err = s.device.CreateCQ(16, nil)
	require.NoError(l.t, err)
	s.mr, err = pd.RegisterMR(make([]byte, transfer), verbs.AccessAll, nil)
	require.NoError(l.t, err)
	s.qp, err = pd.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: s.cq})
	require.NoError(l.t, err)
	s.qp.SetPSN(0)
	return s
}

// write has A write to B, and returns both ends.
func (l *lane) write(v6 bool) (a, b side) {
	l.t.Helper()
	a, b = l.open(l.a, l.addrs[v6][0]), l.open(l.b, l.addrs[v6][1])
	require.NoError(l.t, a.qp.Connect(b.qp.LocalInfo(0), nil))
	require.NoError(l.t, b.qp.Connect(a.qp.LocalInfo(0), nil))
	src := a.mr.Bytes()
	for i := range src {
		src[i] = byte(i * 7)
	}
	began := time.Now()
	require.NoError(l.t, b.qp.PostRecv(&verbs.RecvWR{}))
	require.NoError(l.t, a.qp.PostSend(&verbs.SendWR{ // with immediate data, so that B knows when to look
		Opcode: verbs.WRWriteImm, Flags: verbs.SendSignaled, SGList: []verbs.SGE{a.mr.SGE(0, transfer)},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
	}))
	ctx, cancel := context.WithTimeout(l.t.Context(), giveUp)
	defer cancel()
	for _, s := range []side{a, b} {
		var wc [1]verbs.WC
		_, err := s.cq.Wait(ctx, wc[:])
		require.NoError(l.t, err)
		require.Equal(l.t, verbs.WCSuccess, wc[0].Status)
	}
	a.took = time.Since(began)
	require.Equal(l.t, src, b.mr.Bytes())
	return a, b
}

// Each action, between two ends that send in large runs (UDP GSO): what the ends saw of it, and the
// counters.
func TestActions(t *testing.T) {
	if testing.Short() {
		t.Skip("short: three network namespaces for each of 18 cases")
	}
	for _, c := range []struct {
		name, rule string
		acted      int // at least; 0: the check says
		see        func(t *testing.T, a, b side)
	}{
		{"drop", "drop psn=5 op=write from=toa", 1, func(t *testing.T, a, b side) {
			require.Positive(t, a.device.Counters().RetransmittedPkts)
			require.Positive(t, b.device.Counters().OutOfSeqRequest)
		}},
		{"drop twice", "drop psn=5 times=2", 2, func(t *testing.T, a, _ side) {
			require.GreaterOrEqual(t, a.device.Counters().RetransmittedPkts, uint64(2))
		}},
		{"drop acknowledgements", "drop op=ack from=tob", 1, func(t *testing.T, a, _ side) {
			require.Positive(t, a.device.Counters().RetransmittedPkts)
		}},
		{"duplicate", "duplicate psn=5 op=write", 1,
			func(t *testing.T, _, b side) { require.Positive(t, b.device.Counters().DuplicateRequest) }},
		// The last one: either it was waited for, or sent again meanwhile.
		{"delay", "delay psn=59 time=50ms op=write times=1", 1, func(t *testing.T, a, _ side) {
			require.True(t, a.device.Counters().RetransmittedPkts > 0 || a.took >= 50*time.Millisecond,
				"it took %v", a.took)
		}},
		{"reorder", "reorder psn=5 behind=3 op=write", 1,
			func(t *testing.T, _, b side) { require.Positive(t, b.device.Counters().OutOfSeqRequest) }},
		{"corrupt", "corrupt psn=5 op=write", 1, func(t *testing.T, a, b side) {
			require.EqualValues(t, 1, b.device.Counters().DropICRC)
			require.Positive(t, a.device.Counters().RetransmittedPkts)
		}},
		{"mark", "mark-ce op=write psn=3-7 times=all", 5, func(t *testing.T, _, b side) {
			require.GreaterOrEqual(t, b.device.Counters().CEMarkedPkts, uint64(5))
			require.Zero(t, b.device.Counters().DropICRC)
		}},
		{"observe", "observe op=write", 60, func(t *testing.T, a, b side) {
			require.Zero(t, b.device.Counters().DropICRC+b.device.Counters().OutOfSeqRequest)
		}},
	} {
		for _, v6 := range []bool{false, true} {
			name := c.name
			if v6 {
				name += ", IPv6"
			}
			t.Run(name, func(t *testing.T) {
				l := newLane(t)
				end := l.join("-r", c.rule)
				a, b := l.write(v6)
				r := end()
				require.Len(t, r.Rules, 1)
				require.Equal(t, c.rule, r.Rules[0].Rule)
				require.GreaterOrEqual(t, r.Rules[0].Acted, c.acted)
				require.GreaterOrEqual(t, r.Rules[0].Matched, int64(c.acted))
				if !strings.Contains(c.rule, "times=") && c.name != "observe" {
					require.Equal(t, 1, r.Rules[0].Acted)
				}
				c.see(t, a, b)
				require.Equal(t, "toa", r.Ports[0].Interface)
				require.GreaterOrEqual(t, r.Ports[0].RoCE, int64(60))
				if !linktest.Before(t, 6, 2) {
					require.GreaterOrEqual(t, r.Ports[0].Segmented, int64(2), "the sender's runs are taken apart")
				}
				require.Positive(t, r.Ports[1].RoCE)
				require.Positive(t, r.Ports[0].Other, "the kernel asks for its neighbour")
				require.Zero(t, r.Ports[0].Lost+r.Ports[1].Lost)
			})
		}
	}
}

// Rules of a file, a seed, a capture, the counters on request, and what is not RoCE: TCP in large
// segments.
func TestCommand(t *testing.T) {
	l := newLane(t)
	file := filepath.Join(t.TempDir(), "rules")
	require.NoError(t,
		os.WriteFile(file, []byte("# a remark\nobserve op=write   # all\n\nmark-ce share=50% op=write\n"), 0o600))
	capture := filepath.Join(t.TempDir(), "out.pcap")
	end := l.join("-f", file, "--seed", "42", "-w", capture)
	l.write(false)

	var server net.Listener
	var err error
	l.b.Do(func() { server, err = net.Listen("tcp", netip.AddrPortFrom(l.addrs[false][1], 0).String()) })
	require.NoError(t, err)
	defer server.Close()
	var client net.Conn
	l.a.Do(func() { client, err = net.Dial("tcp", server.Addr().String()) })
	require.NoError(t, err)
	defer client.Close()
	conn, err := server.Accept()
	require.NoError(t, err)
	defer conn.Close()
	const bulk = 4 << 20
	sent := make(chan error, 1)
	go func() {
		_, err := client.Write(make([]byte, bulk))
		sent <- err
	}()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(giveUp)))
	buf, got := make([]byte, 1<<16), 0
	for got < bulk {
		n, err := conn.Read(buf)
		require.NoError(t, err)
		got += n
	}
	require.NoError(t, <-sent)

	// Asks for the counters; the last ones are what end returns.
	require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGUSR1))
	r := end()
	require.EqualValues(t, 42, r.Seed)
	require.GreaterOrEqual(t, r.Rules[0].Acted, 60)
	require.Zero(t, r.Rules[1].Acted, "the first rule that acts decides")
	require.Positive(t, r.Ports[0].Other)
	i, err := os.Stat(capture)
	require.NoError(t, err)
	require.Greater(t, i.Size(), int64(transfer))
}

// What cannot be a cable is refused, with the reason.
func TestRefused(t *testing.T) {
	run := func(args ...string) error {
		return Command().Run(t.Context(), &tool.Env{Stdout: &toolcheck.Output{}, Stderr: &toolcheck.Output{}}, args)
	}
	var misuse *getopt.Error
	for _, args := range [][]string{{}, {"a"}, {"a", "a"}, {"a", "b", "-r", "eat"}, {"a", "b", "--seed", "x"}, {"a",
		"b", "-r", "drop from=c"}} {
		require.ErrorAs(t, run(args...), &misuse, "%q", args)
	}
	var text *tool.Text
	require.ErrorAs(t, run("-h"), &text)
	require.Contains(t, text.Text, "mark-ce")
	require.ErrorContains(t, run("no-such", "lo"), "interface no-such")
	require.ErrorContains(t, run("no-such@no-such", "lo"), "/run/netns/no-such")
	require.Error(t, run("a", "b", "-f", filepath.Join(t.TempDir(), "no")))

	l := newLane(t)
	l.mid.IP("link set toa down")
	var err error
	l.mid.Do(func() { err = run("toa", "tob") })
	require.ErrorContains(t, err, "ip link set toa up")
	l.mid.Do(func() { err = run("lo", "tob") })
	require.Error(t, err)
	if errors.Is(err, syscall.EPERM) {
		t.Skip("it needs CAP_NET_RAW")
	}
	// Ends in two namespaces, by their paths; and it ends after its time.
	l.mid.IP("link set toa up")
	require.NoError(t, run("-D", "0.001", "toa@"+l.mid.Path(), "veth0@"+l.b.Path()))
	// An interface that goes ends it, with an error.
	done := make(chan error, 1)
	go l.mid.Do(func() { done <- run("toa", "tob") })
	for end := time.Now().Add(giveUp); ; {
		l.mid.IP("link set toa down", "link set toa up")
		select {
		case err = <-done:
		case <-time.After(time.Millisecond):
			require.True(t, time.Now().Before(end))
			continue
		}
		break
	}
	if !strings.Contains(err.Error(), "ip link set toa up") { // it had not begun
		require.ErrorIs(t, err, syscall.ENETDOWN)
	}
}

// A packet that is longer than the other interface takes is counted, and the report says what
// helps.
func TestTooLong(t *testing.T) {
	l := newLane(t)
	end := l.join()
	l.mid.IP("link set tob mtu 1000")
	l.b.IP("link set veth0 mtu 1000")
	var c *net.UDPConn
	var err error
	l.a.Do(func() {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(l.addrs[false][0], 50000)))
	})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.WriteToUDPAddrPort(make([]byte, 1400), netip.AddrPortFrom(l.addrs[false][1], ib.UDPPort))
	require.NoError(t, err)
	// Behind it comes one that fits: then the long one has been there.
	linktest.AwaitPath(t, l.a, l.addrs[false][0], l.b, l.addrs[false][1])
	r := end()
	require.EqualValues(t, 1, r.Ports[1].TooLong)
	require.EqualValues(t, 1, r.Ports[1].Lost)
	require.EqualValues(t, 0, r.Ports[1].Sent)
	require.EqualValues(t, 1, r.Ports[0].RoCE)
}
