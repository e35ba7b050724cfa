package matrix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

const (
	// survivorTimeout is how long a program may take to notice that its peer has been
	// killed: with the ACK timeout that 6.1 proposes, 19, eight tries take 17 s and more.
	survivorTimeout = 4 * time.Minute
	// crowdTimeout is for many connections one after the other: 20 s, and several times as
	// long in a guest that has other things to do.
	crowdTimeout = 5 * time.Minute

	rpingPort  = 7174
	nobodyPort = 7175
	rejectPort = 7300
)

// cmFault is one row; it returns what was seen. It ends if something fails: see [peer.Steps].
type cmFault struct {
	name   string
	role   string // of the subject
	family peer.Family
	run    func(context.Context, peer.Family) string
}

// CMFaults runs programs that use RDMA-CM into trouble. A killed original is missed at
// once, since its kernel hangs up for it. A killed stand-in is missed only by a side that has
// something on its way to it: there is no sign of life on an idle connection.
func (e *Env) CMFaults(ctx context.Context, subject, ref Host) error {
	kill := func(server bool) func(context.Context, peer.Family) string {
		return func(ctx context.Context, f peer.Family) string { return killOriginal(ctx, f, subject, ref, server) }
	}
	wrong := func(server, client Host) func(context.Context, peer.Family) string {
		return func(ctx context.Context, f peer.Family) string { return wrongPort(ctx, f, server, client) }
	}
	list := []cmFault{{"ib_write_bw -R, the server is killed", "server", peer.V4,
		func(ctx context.Context, _ peer.Family) string {
			return killWritten(ctx, subject, ref)
		}}}
	for _, f := range []peer.Family{peer.V4, peer.V6} {
		list = append(list,
			cmFault{"rping, the server is killed", "client", f, kill(true)},
			cmFault{"rping, the client is killed", "server", f, kill(false)},
			cmFault{"rping, nobody listens", "client", f, wrong(ref, subject)},
			cmFault{"rping, nobody listens", "server", f, wrong(subject, ref)})
	}
	return e.cmFaults(ctx, survivorTimeout, list)
}

// CMLimits has the subject's device refuse a program of the other host, and connect to
// one, with private data of all lengths that matter, and many times in a row.
func (e *Env) CMLimits(ctx context.Context, ref Host) error {
	d, ok := e.Subject.(interface{ Device() *verbs.Device })
	if !ok {
		return nil
	}
	var list []cmFault
	for _, f := range []peer.Family{peer.V4, peer.V6} {
		list = append(list,
			cmFault{"refused, private data at its limit", "server", f, func(ctx context.Context, f peer.Family) string {
				return refuse(ctx, d.Device(), e.Subject.Addr(f), ref)
			}},
			cmFault{"private data at its limit", "client", f, func(ctx context.Context, f peer.Family) string {
				return tooMuchPrivate(ctx, f, d.Device(), ref)
			}})
	}
	list = append(list, cmFault{"management datagrams that nobody serves", "client", peer.V4,
		func(ctx context.Context, f peer.Family) string { return unserved(ctx, f, d.Device(), ref) }})
	times := 100
	if e.Full {
		times = 1000
	}
	list = append(list, cmFault{fmt.Sprintf("rping -s -P, connect and disconnect %d times in a row", times),
		"client", peer.V4,
		func(ctx context.Context, f peer.Family) string {
			return connectInARow(ctx, f, d.Device(), ref, times)
		}})
	return e.cmFaults(ctx, crowdTimeout, list)
}

// cmFaults runs the rows, each with a limit.
func (e *Env) cmFaults(ctx context.Context, limit time.Duration, list []cmFault) error {
	for _, f := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		row := Row{Kernel: e.Kernel, Group: "cmfaults", Op: f.name, Role: f.role, Link: e.Link,
			Family: string(f.family), Result: Pass}
		e.attempts(&row, 1, func() outcome {
			limited, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			o := outcome{result: Pass}
			if err := peer.Steps(func() { o.detail = f.run(limited, f.family) }); err != nil {
				o = outcome{detail: err.Error(), result: Fail, wrong: isWrong(err)}
			}
			return o
		})
		e.Report.Add(row)
	}
	return nil
}

// Start starts a program of a host.
func Start(ctx context.Context, h Host, tool string, args ...string) (Process, error) {
	argv, ok := h.Command(tool, args)
	if !ok {
		return nil, fmt.Errorf("%s has no %s", h.Name(), tool)
	}
	return h.Start(ctx, argv)
}

// mustStart starts a program that the caller kills.
func mustStart(ctx context.Context, h Host, tool string, args ...string) Process {
	return peer.Got(Start(ctx, h, tool, args...))
}

// mustServe starts one that listens on a port of RDMA-CM.
func mustServe(ctx context.Context, h Host, port int, tool string, args ...string) Process {
	s := mustStart(ctx, h, tool, args...)
	if err := h.ListeningCM(ctx, s, port); err != nil {
		s.Kill()
		failWith(err, s)
	}
	return s
}

// failWith ends a row, and shows what processes have said last.
func failWith(err error, ps ...Process) {
	for _, p := range ps {
		err = fmt.Errorf("%w\n%s", err, tail(p))
	}
	peer.Must(err)
}

// killOriginal kills the original at one end of an rping in the middle; the stand-in has to end by
// itself. The stand-in's output says when the middle is: the original's stays in its buffer.
func killOriginal(ctx context.Context, f peer.Family, subject, ref Host, killServer bool) string {
	server, client := subject, ref
	if killServer {
		server, client = ref, subject
	}
	at := server.Addr(f)
	s := mustServe(ctx, server, rpingPort, "rping", "-s", "-v", "-a", at, "-S", "65535")
	defer s.Kill()
	c := mustStart(ctx, client, "rping", "-c", "-v", "-a", at, "-S", "65535")
	defer c.Kill()
	victim, survivor := c, s
	if killServer {
		victim, survivor = s, c
	}
	// If the victim's memory goes before its connection, a completion tells first.
	return killAndWait(ctx, victim, survivor, survivor, "ping data: rdma-ping-3: ", "DISCONNECT EVENT",
		"cq completion failed status")
}

// killWritten kills the stand-in while the original writes to it.
func killWritten(ctx context.Context, subject, ref Host) string {
	// rxe takes 7 retries, the default, for any number (6.1, 6.12).
	args := []string{"-R", "-F", "-D", "60", "--retry_count=3"}
	s := mustServe(ctx, subject, 0, "ib_write_bw", args...)
	defer s.Kill()
	c := mustStart(ctx, ref, "ib_write_bw", append(args, subject.Addr(peer.V4))...)
	defer c.Kill()
	// Behind this line there is but one message of the exchange until the first WRITE.
	// The original of perftest says so, and then waits for the dead to hang up.
	return killAndWait(ctx, s, c, s, "#bytes", "ompletion with error")
}

// writing is how long a transfer that has been announced is left alone before the kill.
const writing = time.Second

// killAndWait kills the victim when the watched program has said a certain word, and waits
// until the survivor notices, which is when it says one of some others.
func killAndWait(ctx context.Context, victim, survivor, watched Process, word string, notices ...string) string {
	err := Poll(ctx, watched, func() (bool, error) { return strings.Contains(watched.Output(), word), nil })
	if err != nil {
		failWith(fmt.Errorf("before the kill: %w", err), victim, survivor)
	}
	select {
	case <-survivor.Done():
		failWith(errors.New("an end has come before the kill"), victim, survivor)
	case <-time.After(writing):
	}
	victim.Kill()
	killedAt := time.Now()
	noticed := func() bool {
		return slices.ContainsFunc(notices, func(n string) bool { return strings.Contains(survivor.Output(), n) })
	}
	err = endOrSaid(ctx, survivor, noticed)
	switch {
	case err != nil:
		failWith(fmt.Errorf("the other end does not notice: %w", err), survivor)
	case !noticed():
		failWith(fmt.Errorf("the other end ends for another reason (%v), and says none of %q",
			survivor.Wait(), notices), survivor)
	case crashed(survivor):
		failWith(errors.New("the other end crashes"), survivor)
	}
	return fmt.Sprintf("the other end noticed after %.1fs", time.Since(killedAt).Seconds())
}

// endOrSaid waits for the end of a program. An original (rdma-core 44) may say what it has to, and
// then wait for ever.
func endOrSaid(ctx context.Context, p Process, said func() bool) error {
	_, original := p.(Original)
	return Poll(ctx, nil, func() (bool, error) {
		select {
		case <-p.Done():
			return true, nil
		default:
			return original && said(), nil
		}
	})
}

// crashed reports whether a program of Go has ended with a panic.
func crashed(p Process) bool {
	out := p.Output()
	return strings.Contains(out, "panic: ") || strings.Contains(out, "fatal error: ")
}

// tail is the end of what a process has printed.
func tail(p Process) string {
	const most = 300
	out := p.Output()
	return out[max(len(out)-most, 0):]
}

// wrongPort connects to a port that nobody listens on.
func wrongPort(ctx context.Context, f peer.Family, server, client Host) string {
	s := mustServe(ctx, server, rpingPort, "rping", "-s", "-a", server.Addr(f))
	defer s.Kill()
	c := mustStart(ctx, client, "rping", "-c", "-a", server.Addr(f), "-p", strconv.Itoa(nobodyPort))
	defer c.Kill()
	told := func() bool { return nobodyListens.MatchString(c.Output()) }
	err := endOrSaid(ctx, c, told)
	if err == nil && (!told() || crashed(c)) {
		err = errors.New("the client was not told that nobody listens")
	}
	if err != nil {
		failWith(err, c)
	}
	return nobodyListens.FindString(c.Output())
}

// nobodyListens is what rping says of a REJ with reason 8, invalid service ID; the original
// without the second colon.
var nobodyListens = regexp.MustCompile(`RDMA_CM_EVENT_REJECTED, error:? 8\b`)

// refuse refuses a client of the other side with as much private data as fits, after
// more than that.
func refuse(ctx context.Context, dev *verbs.Device, local netip.Addr, ref Host) string {
	ch := peer.Got(rdmacm.CreateEventChannel(dev))
	defer ch.Close()
	l := peer.Got(rdmacm.CreateID(ch, rdmacm.PortSpaceTCP))
	defer l.Close()
	peer.Must(l.BindAddr(netip.AddrPortFrom(local, rejectPort)))
	peer.Must(l.Listen(rdmacm.ListenLimits{}))
	c := mustStart(ctx, ref, "rping", "-c", "-a", local.String(), "-p", strconv.Itoa(rejectPort))
	defer c.Kill()
	e, err := ch.Get(ctx)
	if err != nil {
		failWith(err, c)
	}
	defer e.ID.Close()
	if e.Type != rdmacm.EventConnectRequest || len(e.PrivateData) != rdmacm.MaxConnectPrivate {
		peer.Must(fmt.Errorf("%v with %d bytes instead of a request with %d", e.Type, len(e.PrivateData),
			rdmacm.MaxConnectPrivate))
	}
	fill := func(n int) []byte { return bytes.Repeat([]byte{0xA5}, n) }
	p := rdmacm.DefaultConnParam()
	p.QPN, p.PrivateData = 1234, fill(rdmacm.MaxAcceptPrivate+1)
	if e.ID.Accept(&p) == nil || e.ID.Reject(fill(rdmacm.MaxRejectPrivate+1)) == nil {
		peer.Must(errors.New("private data that is too long was taken"))
	}
	peer.Must(e.ID.Reject(fill(rdmacm.MaxRejectPrivate)))
	if err := Poll(ctx, nil, func() (bool, error) {
		return strings.Contains(c.Output(), "RDMA_CM_EVENT_REJECTED, error 28"), nil
	}); err != nil {
		failWith(fmt.Errorf("the client was not told: %w", err), c)
	}
	return lastLine(c.Output())
}

// tooMuchPrivate connects with as much private data as fits, after more than that.
func tooMuchPrivate(ctx context.Context, f peer.Family, dev *verbs.Device, ref Host) string {
	s := mustServe(ctx, ref, rpingPort, "rping", "-s", "-a", ref.Addr(f))
	defer s.Kill()
	ch := peer.Got(rdmacm.CreateEventChannel(dev))
	defer ch.Close()
	id := peer.Got(rdmacm.CreateID(ch, rdmacm.PortSpaceTCP))
	defer id.Close()
	peer.Must(id.ResolveAddr(netip.AddrPort{}, netip.AddrPortFrom(netip.MustParseAddr(ref.Addr(f)), rpingPort)))
	peer.Must(id.ResolveRoute())
	p := rdmacm.DefaultConnParam()
	p.QPN, p.StartingPSN, p.PrivateData = 1234, 5678, make([]byte, rdmacm.MaxConnectPrivate+1)
	if err := id.Connect(&p); !errors.Is(err, roce.ErrInvalidAttr) {
		peer.Must(fmt.Errorf("private data that is too long: %v", err))
	}
	p.PrivateData = p.PrivateData[:rdmacm.MaxConnectPrivate]
	peer.Must(id.Connect(&p))
	for {
		e, err := ch.Get(ctx)
		switch {
		case err != nil:
			failWith(err, s)
		case e.Type == rdmacm.EventConnectResponse:
			return fmt.Sprintf("accepted with %d bytes", len(e.PrivateData))
		case e.Type != rdmacm.EventAddrResolved && e.Type != rdmacm.EventRouteResolved:
			failWith(fmt.Errorf("%v: %v", e.Type, e.Err), s)
		}
	}
}

// connectInARow connects to a program of the other side and hangs up, again and again; none
// may fail, and nothing may be left behind.
func connectInARow(ctx context.Context, f peer.Family, dev *verbs.Device, ref Host, times int) string {
	s := mustServe(ctx, ref, rpingPort, "rping", "-s", "-P", "-a", ref.Addr(f))
	defer s.Kill()
	d := roce.Dialer{ConnConfig: roce.ConnConfig{Device: dev}}
	to := netip.AddrPortFrom(netip.MustParseAddr(ref.Addr(f)), rpingPort)
	began, before := time.Now(), dev.MemCounts()
	for i := range times {
		c, err := d.DialAddr(ctx, to)
		if err == nil {
			err = c.Close()
		}
		if err != nil {
			failWith(fmt.Errorf("connection %d: %w", i+1, err), s)
		}
	}
	if after := dev.MemCounts(); after != before {
		failWith(fmt.Errorf("left behind: %+v, and before it was %+v", after, before), s)
	}
	return fmt.Sprintf("%.1f ms each", float64(time.Since(began).Microseconds())/1000/float64(times))
}
