package paths

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/ib"
)

// Options say what to run.
type Options struct {
	// Only picks cells by "ROW: CONTENDER"; nil is all.
	Only *regexp.Regexp
	// Rounds is how often each cell is measured.
	Rounds int
	// Warm is how long a round runs before it counts, and Time how long it counts.
	Warm, Time time.Duration
	Seed       uint64
	// QUIC is the program of bench/apps/cmd/quic; "" is none.
	QUIC string
	Logf func(string, ...any)
}

// Result is one round of a cell.
type Result struct {
	Row, Contender string
	Mbps           float64 // of payload, that the receiving program has got
	Beside         float64 // of the TCP flow at the same time
	Dropped        int     // packets of the contender that the queue had no room for
	Lost           int     // that the link lost
	Data           int     // packets with payload, as they came to the link
	Repeats        int     // of these: the sender had sent them before
	Needless       int     // of these: the link had delivered them
	Marked         int
	P50, P999      float64 // of a small message, there and back, in us
	Trips          int
	// Late50, Late99 and LateWorst are how much later than it should a packet left the link, in us:
	// half of all, all but one in a hundred, the latest.
	Late50, Late99, LateWorst float64
	// Behind is why this round does not count; "" is that it does.
	Behind string
	// Busy is which share of the machine's time others took.
	Busy  float64
	Error string `json:",omitempty"`
	Run   int    // of Report.Runs
}

// A link has fallen behind if more than a packet in a hundred leaves later than this share of the
// time that a round trip takes, and than lateUs in any case. Such a round is played again, so many
// times.
const (
	lateShare = 0.1
	lateUs    = 500
	againMost = 2
)

// warmTrips is how many round trips a round runs at least before it counts: a connection on a long
// path needs some until its window is open, and TCP as many.
const warmTrips = 25

// runner is a run.
type runner struct {
	o    Options
	lab  *lab
	link *child
	bbr  bool
}

// Run measures cells, and hands over each result as it comes. The results it returns with an error
// are good.
func Run(o Options, each func(Result)) (err error) {
	r := &runner{o: o}
	if r.lab, err = newLab(); err != nil {
		return fmt.Errorf("namespaces with TUN devices: %w", err)
	}
	defer func() { err = errors.Join(err, r.lab.close()) }()
	r.link, err = startChild(roleLink, r.lab.files[:], (*exec.Cmd).Start)
	if err != nil {
		return err
	}
	defer r.link.end()
	controls, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	r.bbr = slices.Contains(strings.Fields(string(controls)), "bbr")
	for _, row := range append([]Row{calibration()}, Rows()...) {
		for _, c := range row.contenders() {
			if o.Only != nil && !o.Only.MatchString(row.Name+": "+c.Name) {
				continue
			}
			for round := range o.Rounds {
				if !r.bbr && (c.Control == "bbr" || row.Beside == "bbr") || c.Kind == flowQUIC && o.QUIC == "" {
					continue
				}
				for again := 0; ; again++ {
					res := Result{Row: row.Name, Contender: c.Name}
					if err := r.measure(&row, &c, o.Seed+uint64(round), &res); err != nil {
						res.Error = err.Error()
					}
					o.Logf("%s: %s: %s", row.Name, c.Name, &res)
					each(res)
					if res.Behind == "" || again == againMost {
						break
					}
				}
			}
		}
	}
	return nil
}

// calibration is a link without limits: what this machine carries.
func calibration() Row { return Row{Name: "without limits", Path: Path{}} }

// String is a result in a line.
func (r *Result) String() string {
	if r.Error != "" {
		return r.Error
	}
	s := fmt.Sprintf("%.1f Mb/s", r.Mbps)
	if r.Beside > 0 {
		s += fmt.Sprintf(", beside it %.1f", r.Beside)
	}
	s += fmt.Sprintf("; of %d packets %d lost, %d had no room, %d repeated, %d of these for nothing", r.Data,
		r.Lost, r.Dropped, r.Repeats, r.Needless)
	if r.Trips > 0 {
		s += fmt.Sprintf("; small %.2f ms, p99.9 %.2f ms", r.P50/1e3, r.P999/1e3)
	}
	s += fmt.Sprintf("; link late by %.0f us (p99), others %.0f %% of the machine", r.Late99, r.Busy*100)
	if r.Behind != "" {
		s += "; DOES NOT COUNT: " + r.Behind
	}
	return s
}

// round is one round under way.
type round struct {
	*runner
	row  *Row
	c    *Contender
	ends [2]*child
	quic [2]*quicEnd
}

// measure plays a round.
func (r *runner) measure(row *Row, c *Contender, seed uint64, res *Result) (err error) {
	ecn := "2" // the default of Linux: if the peer asks
	if row.ECN {
		ecn = "1"
	}
	if err := r.lab.sysctl("ipv4/tcp_ecn", ecn); err != nil && row.ECN {
		return err
	}
	m := &round{runner: r, row: row, c: c}
	defer m.close()
	for i := range m.ends {
		if m.ends[i], err = startChild(roleEnd, nil,
			func(cmd *exec.Cmd) error { return r.lab.start(i, cmd) }); err != nil {
			return err
		}
	}
	if err := tell(r.link, "Link.Set", LinkSetup{row.Path, seed}); err != nil {
		return err
	}
	if err := m.begin(); err != nil {
		return err
	}
	time.Sleep(max(r.o.Warm, warmTrips*2*row.Path.Delay))
	before, err := m.look()
	if err != nil {
		return err
	}
	time.Sleep(r.o.Time)
	after, err := m.look()
	if err != nil {
		return err
	}
	m.fill(res, &before, &after)
	return nil
}

// begin starts the flows.
func (m *round) begin() error {
	c := m.c
	a, b := m.ends[0], m.ends[1]
	if m.row.Beside != "" {
		if err := m.stream(c.sender(), FlowArgs{Kind: flowTCP, Control: m.row.Beside, Beside: true},
			false); err != nil {
			return err
		}
	}
	switch c.Kind {
	case flowTCP:
		return m.stream(0, FlowArgs{Kind: flowTCP, Control: c.Control}, m.row.Small)
	case flowQUIC:
		return m.beginQUIC()
	}
	var remotes [2]Remote
	var err error
	for i, e := range m.ends {
		if remotes[i], err = call[Remote](e, "End.Open", OpenArgs{m.lab.addrs[i], c.Control, c.GoBack}); err != nil {
			return err
		}
	}
	for i, e := range m.ends {
		if err := tell(e, "End.Connect", ConnectArgs{remotes[1-i], m.row.ackTimeout()}); err != nil {
			return err
		}
	}
	if c.Kind == flowRSocket {
		return m.stream(0, FlowArgs{Kind: flowRSocket}, m.row.Small)
	}
	if m.row.Small {
		if err := tell(b, "End.Ping", FlowArgs{}); err != nil {
			return err
		}
		if err := tell(a, "End.Ping", FlowArgs{Kind: c.Kind}); err != nil {
			return err
		}
	}
	return tell(a, "End.Flow", FlowArgs{Kind: c.Kind})
}

// ackTimeout is the code of the ACK timeout, 0 for the default of 67 ms where that is twice a round
// trip.
func (r *Row) ackTimeout() ib.TimeoutCode {
	if r.Path.full() > 33*time.Millisecond {
		return 17 // 537 ms
	}
	return 0
}

// stream starts a flow over a stream from an end to the other, and small messages over another.
func (m *round) stream(from int, a FlowArgs, small bool) (err error) {
	l := ListenArgs{Addr: m.lab.addrs[1-from], RSocket: a.Kind == flowRSocket, Control: a.Control, Beside: a.Beside}
	if a.To, err = call[netip.AddrPort](m.ends[1-from], "End.Listen", l); err != nil {
		return err
	}
	if small {
		if err := tell(m.ends[from], "End.Ping", a); err != nil {
			return err
		}
	}
	return tell(m.ends[from], "End.Flow", a)
}

// view is everything at a time.
type view struct {
	ends  [2]Sample
	quic  [2]Sample
	link  LinkCount
	drops int
	busy  busyTime
}

// look counts.
func (m *round) look() (v view, err error) {
	for i, e := range m.ends {
		if v.ends[i], err = call[Sample](e, "End.Sample", struct{}{}); err != nil {
			return v, err
		}
		if f := v.ends[i].Failure; f != "" {
			return v, errors.New(f)
		}
		if q := m.quic[i]; q != nil {
			if v.quic[i], err = q.sample(); err != nil {
				return v, err
			}
		}
	}
	if v.link, err = call[LinkCount](m.link, "Link.Count", struct{}{}); err != nil {
		return v, err
	}
	v.drops, v.busy = m.lab.dropped(), machineTime()
	v.busy.own = v.ends[0].CPU + v.ends[1].CPU + v.quic[0].CPU + v.quic[1].CPU + v.link.CPU
	return v, nil
}

// fill reads a result off two views.
func (m *round) fill(res *Result, v, w *view) {
	rate := func(x, y []Sample, end, flow int) float64 {
		return float64(y[end].Bytes[flow]-x[end].Bytes[flow]) * 8e3 / float64(y[end].Ns-x[end].Ns)
	}
	protocol, lane, trips := RoCE, m.c.sender(), w.ends[0].Trips
	switch m.c.Kind {
	case flowWrite, flowRead:
		res.Mbps = rate(v.ends[:], w.ends[:], 0, 0)
	case flowRSocket:
		res.Mbps = rate(v.ends[:], w.ends[:], 1, 0)
	case flowTCP:
		protocol = TCP
		res.Mbps = rate(v.ends[:], w.ends[:], 1, 0)
	case flowQUIC:
		protocol, trips = Other, w.quic[0].Trips
		res.Mbps = rate(v.quic[:], w.quic[:], 1, 0)
	}
	if m.row.Beside != "" {
		res.Beside = rate(v.ends[:], w.ends[:], 1-lane, 1)
	}
	n := w.link.Lanes[lane][protocol].minus(v.link.Lanes[lane][protocol])
	res.Dropped, res.Lost, res.Data, res.Repeats, res.Needless, res.Marked = n.Overflow, n.Lost, n.Data,
		n.Repeats, n.Needless, n.Marked
	if protocol == Other {
		res.Data = n.In
	}
	if res.Trips = len(trips); res.Trips > 0 {
		at := func(p float64) float64 { return trips[min(int(float64(len(trips))*p), len(trips)-1)] }
		res.P50, res.P999 = at(0.5), at(0.999)
	}
	res.Late50, res.Late99, res.LateWorst = w.link.P50, w.link.P99, w.link.Worst
	res.Busy = w.busy.others(&v.busy)
	limit := max(lateUs, lateShare*float64(2*m.row.Path.Delay)/1e3)
	switch {
	case w.drops > v.drops:
		res.Behind = fmt.Sprintf("the link did not read %d packets in time", w.drops-v.drops)
	case w.link.Refused > v.link.Refused:
		res.Behind = fmt.Sprintf("the kernel took %d packets not from the link", w.link.Refused-v.link.Refused)
	case res.Late99 > limit && m.row.Path != (Path{}):
		res.Behind = fmt.Sprintf("a packet in a hundred left the link more than %.0f us late", res.Late99)
	}
}

func (m *round) close() {
	for i := range m.ends {
		if m.quic[i] != nil {
			m.quic[i].end()
		}
		if m.ends[i] != nil {
			m.ends[i].end()
		}
	}
}

// quicEnd is a process of the program of bench/apps/cmd/quic. For each line that it reads it prints
// a Sample.
type quicEnd struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// quicPort is where its server listens.
const quicPort = "4433"

// beginQUIC starts a server, and a client that sends.
func (m *round) beginQUIC() error {
	to := m.lab.addrs[1].String() + ":" + quicPort
	args := [2][]string{{"send", to}, {"serve", to}}
	if m.row.Small {
		args[0] = append(args[0], "ping")
	}
	for _, i := range []int{1, 0} {
		q := &quicEnd{cmd: command(m.o.QUIC, args[i]...)}
		q.cmd.Stderr = os.Stderr
		var err error
		if q.in, err = q.cmd.StdinPipe(); err != nil {
			return err
		}
		out, err := q.cmd.StdoutPipe()
		if err != nil {
			return err
		}
		q.out = bufio.NewScanner(out)
		q.out.Buffer(nil, 1<<24)
		if err := m.lab.start(i, q.cmd); err != nil {
			return err
		}
		m.quic[i] = q
		if _, err := q.sample(); err != nil { // it is there
			return err
		}
	}
	return nil
}

func (q *quicEnd) sample() (s Sample, err error) {
	if _, err = io.WriteString(q.in, "\n"); err != nil {
		return s, err
	}
	if !q.out.Scan() {
		return s, errors.Join(errors.New("quic-go has ended"), q.out.Err())
	}
	if err = json.Unmarshal(q.out.Bytes(), &s); err == nil && s.Failure != "" {
		err = errors.New(s.Failure)
	}
	slices.Sort(s.Trips)
	return s, err
}

func (q *quicEnd) end() {
	_ = q.in.Close()
	_ = q.cmd.Process.Kill()
	_ = q.cmd.Wait()
}
