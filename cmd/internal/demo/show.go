package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
)

// depth is how many messages of the bandwidth test are on their way.
const depth = 32

// Seeds of the patterns, one for each direction of each step.
const (
	seedSend = iota + 1
	seedWrite
	seedRead
	seedStream // and up, for each place of the window
)

// summary is what --json prints.
type summary struct {
	Addr     string `json:"addr"`
	PeerAddr string `json:"peer_addr"`
	Steps    []step `json:"steps"`
	OK       bool   `json:"ok"`
}

// step is one operation and what came of it.
type step struct {
	Name    string  `json:"name"`
	Outcome string  `json:"outcome"`
	MiBps   float64 `json:"mib_per_sec,omitempty"`
	P50     float64 `json:"p50_us,omitempty"`
	P99     float64 `json:"p99_us,omitempty"`
}

// stage is the parent process while the demonstration runs.
type stage struct {
	ctx  context.Context
	out  io.Writer
	o    *options
	n    *node
	peer *peerLink
	far  reply // what the peer said of itself
	// farAddr is where it listens.
	farAddr netip.AddrPort
	sum     summary
}

func show(ctx context.Context, env *tool.Env, o *options, dev *verbs.Device, spawn spawner) (err error) {
	s := &stage{ctx: ctx, out: env.Stdout, o: o}
	if o.json {
		s.out = io.Discard
	}
	args, err := o.peerArgs()
	if err != nil {
		return err
	}
	in, out, wait, err := spawn(ctx, env, args)
	if err != nil {
		return err
	}
	defer func() {
		if waitErr := wait(); err == nil {
			err = waitErr
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	s.peer = newPeerLink(out, in)
	if s.n, err = newNode(dev); err != nil {
		return err
	}
	for _, f := range []func() error{
		s.meet, s.connect, s.send, s.write, s.read, s.fetchAdd, s.compareSwap, s.wrongKey, s.bandwidth, s.latency,
	} {
		if err := f(); err != nil {
			return err
		}
	}
	s.say("\nAll of it was checked, byte by byte, on the side where it ended up.\n")
	s.sum.OK = true
	if o.json {
		return tool.WriteJSON(env.Stdout, s.sum)
	}
	return nil
}

func (s *stage) say(format string, args ...any) { fmt.Fprintf(s.out, format, args...) }

// headline begins a step.
func (s *stage) headline(name, why string) {
	s.sum.Steps = append(s.sum.Steps, step{Name: name})
	s.say("\n%-11s %s\n", name, why)
}

// outcome ends a step, or one of several trials of a step. Line breaks are for the text alone.
func (s *stage) outcome(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	last := &s.sum.Steps[len(s.sum.Steps)-1]
	if last.Outcome != "" {
		last.Outcome += "; "
	}
	last.Outcome += strings.ReplaceAll(text, "\n", " ")
	s.say("            -> %s\n", strings.ReplaceAll(text, "\n", "\n               "))
}

func (s *stage) meet() error {
	s.say("Two processes on this machine, each with an RDMA device of its own.\n" +
		"No RDMA hardware, no kernel driver, no root: a device is a UDP socket on port 4791,\n" +
		"and what goes over it are the packets that RoCE v2 network cards exchange.\n")
	var err error
	if s.far, err = s.peer.ask(request{Op: "hello"}); err != nil {
		return err
	}
	if s.farAddr, err = netip.ParseAddrPort(s.far.Addr); err != nil {
		return fmt.Errorf("the peer process's address: %w", err)
	}
	s.sum.Addr, s.sum.PeerAddr = s.n.dev.Addrs()[0].String(), s.farAddr.Addr().String()
	s.say("\n            this process  pid %-8d device on %s\n            its peer      pid %-8d device on %s\n",
		os.Getpid(), s.sum.Addr, s.far.PID, s.sum.PeerAddr)
	return nil
}

func (s *stage) connect() error {
	s.headline("connect", "roce.Dial here, Accept there: RDMA-CM tells each side the other's queue pair number and\n"+
		"            first packet number, and both move their queue pairs to \"ready to send\".")
	if err := s.n.dial(s.ctx, s.farAddr); err != nil {
		return err
	}
	if _, err := s.peer.ask(request{Op: "connect"}); err != nil {
		return err
	}
	attr, _, err := s.n.conns[mainConn].QP().Query()
	if err != nil {
		return err
	}
	s.outcome("queue pair %v here, %v there, path MTU %d bytes", s.n.conns[mainConn].QP().Num(), attr.DestQPN,
		attr.PathMTU.Bytes())
	return nil
}

// timed returns how long f took.
func timed(f func() error) (time.Duration, error) {
	start := time.Now()
	err := f()
	return time.Since(start), err
}

// remote names a piece of the peer's memory.
func (s *stage) remote(off, n int) roce.RemoteMemory {
	return roce.RemoteMemory{Addr: s.far.VAddr + uint64(off), RKey: ib.RKey(s.far.RKey), Len: uint32(n)}
}

func (s *stage) send() error {
	s.headline("SEND", "A message; the peer has posted a receive, which says where it shall go.")
	pattern(s.n.buf.Bytes()[:helloBytes], seedSend)
	took, err := timed(func() error { return s.n.conns[mainConn].Send(s.ctx, s.n.buf.Bytes()[:helloBytes]) })
	if err != nil {
		return err
	}
	if _, err := s.peer.ask(request{Op: "received", Len: helloBytes, Seed: seedSend}); err != nil {
		return err
	}
	s.outcome("%d bytes acknowledged after %v; the peer found each one right", helloBytes, took.Round(time.Microsecond))
	return nil
}

func (s *stage) write() error {
	s.headline("WRITE", "Straight into the peer's registered memory, at an address and with a key that it\n"+
		"            gave us. The peer's program does nothing and is not told.")
	pattern(s.n.buf.Bytes()[:dataBytes], seedWrite)
	took, err := timed(func() error {
		return s.n.conns[mainConn].Write(s.ctx, s.n.buf.Bytes()[:dataBytes], s.remote(dataOffset, dataBytes))
	})
	if err != nil {
		return err
	}
	if _, err := s.peer.ask(request{Op: "check", Off: dataOffset, Len: dataBytes, Seed: seedWrite}); err != nil {
		return err
	}
	s.outcome("%d bytes acknowledged after %v; asked to look, the peer found each one right", dataBytes,
		took.Round(time.Microsecond))
	return nil
}

func (s *stage) read() error {
	s.headline("READ", "The same in the other direction.")
	if _, err := s.peer.ask(request{Op: "fill", Seed: seedRead}); err != nil {
		return err
	}
	took, err := timed(func() error {
		return s.n.conns[mainConn].Read(s.ctx, s.n.buf.Bytes()[:dataBytes], s.remote(dataOffset, dataBytes))
	})
	if err != nil {
		return err
	}
	if i := differs(s.n.buf.Bytes()[:dataBytes], seedRead); i >= 0 {
		return fmt.Errorf("byte %d of the %d read is wrong", i, dataBytes)
	}
	s.outcome("%d bytes after %v, each one right", dataBytes, took.Round(time.Microsecond))
	return nil
}

// expect compares the two sides' views of the word.
func (s *stage) expect(before, wantBefore, wantNow uint64) error {
	r, err := s.peer.ask(request{Op: "word"})
	if err != nil {
		return err
	}
	if before != wantBefore || r.Word != wantNow {
		return fmt.Errorf("the word was %d and is %d; it should have been %d and be %d", before, r.Word,
			wantBefore, wantNow)
	}
	return nil
}

func (s *stage) fetchAdd() error {
	const add = 7
	s.headline("FETCH_ADD", "Add to a word in the peer's memory and get its old value, with nothing in between.")
	before, err := s.n.conns[mainConn].FetchAdd(s.ctx, s.remote(wordOffset, 8), add)
	if err != nil {
		return err
	}
	if err := s.expect(before, firstValue, firstValue+add); err != nil {
		return err
	}
	s.outcome("added %d: it was %d, the peer sees %d", add, before, firstValue+add)
	return nil
}

func (s *stage) compareSwap() error {
	const value, changed = firstValue + 7, 4242
	s.headline("CMP_SWAP", "Replace the word if it has a certain value.")
	for _, c := range []struct{ compare, swap, before, after uint64 }{
		{value, changed, value, changed},
		{value, 1, changed, changed},
	} {
		before, err := s.n.conns[mainConn].CompareSwap(s.ctx, s.remote(wordOffset, 8), c.compare, c.swap)
		if err != nil {
			return err
		}
		if err := s.expect(before, c.before, c.after); err != nil {
			return err
		}
		what := "swapped in"
		if c.before != c.compare {
			what = "refused"
		}
		s.outcome("if %d then %d: it was %d, so %s; the peer sees %d", c.compare, c.swap, before, what, c.after)
	}
	return nil
}

func (s *stage) wrongKey() error {
	s.headline("wrong key", "A WRITE with a key that is not the peer's: the key is what protects its memory.")
	place := s.remote(dataOffset, 4096)
	place.RKey ^= 0x5a5a5a5a
	pattern(s.n.buf.Bytes()[:4096], seedWrite)
	victim := s.n.conns[victimConn]
	err := victim.Write(s.ctx, s.n.buf.Bytes()[:4096], place)
	var status *roce.StatusError
	if !errors.As(err, &status) || status.WC.Status != verbs.WCRemoteAccessErr {
		return fmt.Errorf("a WRITE with a wrong key ended with %v instead of %q", err, verbs.WCRemoteAccessErr)
	}
	if stats := victim.Stats(); stats.State != roce.ConnFailed {
		return fmt.Errorf("after the refusal the connection is %v instead of %v", stats.State, roce.ConnFailed)
	}
	if state := victim.QP().State(); state != verbs.StateErr {
		return fmt.Errorf("after the refusal the queue pair is in %v instead of %v", state, verbs.StateErr)
	}
	r, err := s.peer.ask(request{Op: "event"})
	if err != nil {
		return err
	}
	if _, err := s.peer.ask(request{Op: "check", Off: dataOffset, Len: dataBytes, Seed: seedRead}); err != nil {
		return fmt.Errorf("the peer's memory changed: %w", err)
	}
	s.outcome("refused: %v (status %d). The peer was told (%s), its memory is as it was,\n"+
		"and this queue pair is in the error state: nothing more goes over it.", status.WC.Status,
		status.WC.Status, r.Event)
	return nil
}
