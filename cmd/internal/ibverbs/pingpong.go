package ibverbs

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/verbs"
)

// Pingpongs returns the subcommands that send back and forth.
func Pingpongs() (all []tool.Command) {
	for _, k := range kinds {
		all = append(all, tool.Command{Name: k.Name(), Summary: k.Summary(), Run: func(ctx context.Context,
			env *tool.Env, args []string) error {
			o, err := parse(k, args)
			if err != nil {
				return err
			}
			return run(ctx, env, o)
		}})
	}
	return all
}

// session is one run of a tool.
type session struct {
	env *tool.Env
	o   *Options
	dev *verbs.Device
	pd  *verbs.PD
	cq  *verbs.CQ
	srq *verbs.SRQ
	mr  *verbs.MR
	buf *verbs.MappedBuffer

	qps      []*verbs.QP
	ah       *verbs.AH // UD
	mine     []dest
	peer     []dest
	sge      [1]verbs.SGE // what is sent
	wcs      [16]verbs.WC
	index    map[ib.QPN]int
	gidIndex int

	posted int     // receives
	owing  []uint8 // for each QP, the completions to wait for before the next message
	sent   int     // completions
	got    int
}

// What a QP waits for before it sends again.
const (
	awaitSend uint8 = 1 << iota
	awaitRecv
)

const idSend, idRecv = 1, 2

func run(ctx context.Context, env *tool.Env, o *Options) (err error) {
	s := &session{env: env, o: o, index: map[ib.QPN]int{}}
	place, err := o.Choose(o.Host, false)
	if err != nil {
		return err
	}
	dev, release, _, err := o.Open(env, place)
	if err != nil {
		return err
	}
	s.dev = dev
	defer func() { err = errors.Join(err, s.free(), release()) }()
	if err := s.allocate(); err != nil {
		return err
	}
	if err := s.postRecvs(); err != nil {
		return err
	}
	s.print("local", s.mine)
	if err := s.introduce(ctx); err != nil {
		return err
	}
	s.print("remote", s.peer)
	elapsed, err := s.bounce(ctx)
	if err != nil {
		return err
	}
	if err := s.report(elapsed); err != nil {
		return err
	}
	return s.check()
}

// send posts a message on a QP.
func (s *session) send(i int) error {
	wr := verbs.SendWR{ID: idSend, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: s.sge[:]}
	if s.o.Kind == UD {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = s.ah, s.peer[0].QPN, qkey
	}
	if err := s.qps[i].PostSend(&wr); err != nil {
		return fmt.Errorf("post message %d: %w", s.sent+1, err)
	}
	s.owing[i] = awaitSend | awaitRecv
	return nil
}

// bounce sends messages back and forth. The client sends first on every QP.
func (s *session) bounce(ctx context.Context) (time.Duration, error) {
	for i := range s.owing {
		s.owing[i] = awaitRecv
		if s.o.Host != "" {
			if err := s.send(i); err != nil {
				return 0, err
			}
		}
	}
	progress := tool.NewProgress(s.env, s.o.Kind.Name(), uint64(s.o.Iters), s.o.Size)
	defer progress.Done()
	start := time.Now()
	for s.got < s.o.Iters || s.sent < s.o.Iters {
		n, err := s.wait(ctx)
		if err != nil {
			return 0, err
		}
		for i := range s.wcs[:n] {
			if err := s.complete(&s.wcs[i]); err != nil {
				return 0, err
			}
		}
		progress.Update(uint64(s.got))
	}
	return time.Since(start), nil
}

// wait returns one completion at least.
func (s *session) wait(ctx context.Context) (int, error) {
	n, err := s.cq.Poll(s.wcs[:])
	for i := 0; n == 0 && err == nil && i < tool.Spins && !s.o.Events; i++ {
		runtime.Gosched()
		n, err = s.cq.Poll(s.wcs[:])
	}
	if n == 0 && err == nil {
		n, err = s.cq.Wait(ctx, s.wcs[:])
	}
	if err != nil && ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return n, err
}

func (s *session) complete(wc *verbs.WC) error {
	if wc.Status != verbs.WCSuccess {
		hint := ""
		if wc.Status == verbs.WCRetryExcErr {
			hint = "; the peer does not answer: has it ended, can UDP port 4791 reach it, does its MTU fit (-m)?"
		}
		return fmt.Errorf("failed status %v (%d) for wr_id %d, vendor error %#x, on QP %v%s: %w",
			wc.Status, wc.Status, wc.ID, wc.VendorErr, wc.QPN, hint, verbs.WCError(wc))
	}
	i, ok := s.index[wc.QPN]
	if !ok {
		return fmt.Errorf("completion for QP %v, which is not ours", wc.QPN)
	}
	if wc.ID == idSend {
		s.sent++
		s.owing[i] &^= awaitSend
	} else {
		s.got++
		s.posted--
		s.owing[i] &^= awaitRecv
		if s.posted <= s.o.QPs {
			if err := s.postRecvs(); err != nil {
				return err
			}
		}
	}
	if s.sent < s.o.Iters && s.owing[i] == 0 {
		return s.send(i)
	}
	return nil
}

// check is -c on the server: the client marked the first byte of each page.
func (s *session) check() error {
	if !s.o.Check || s.o.Host != "" {
		return nil
	}
	b := s.buf.Bytes()[s.o.offset():]
	for i := 0; i < len(b); i += checkEvery {
		if b[i] != mark {
			return fmt.Errorf("invalid data in page %d: %#x instead of %#x", i/checkEvery, b[i], mark)
		}
	}
	return nil
}
