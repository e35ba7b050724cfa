package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/goroce/goroce/conformance/hosts"
	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/matrix"
)

// maxDeaths is how often the machine of a target may end in a run, and be replaced. A kernel that
// has a rare fault of its own must not cost the run of all others; one that ends twice has met
// something that ends it.
const maxDeaths = 1

// target is a suite's kernel to run against. The machine may die: what was running against it is
// then run again against a new one.
type target struct {
	im   *lab.Image
	logf func(string, ...any)
	boot func(context.Context) (*life, error)
	// programs is the lock that the lanes of a target share.
	programs sync.RWMutex

	mu     sync.Mutex
	now    *life
	deaths []string // what each machine that died has said
}

// life is a machine of a target, from its boot to its end.
type life struct {
	machine interface {
		Panicked() bool
		Close()
	}
	p     *hosts.RXE
	pulse *lab.Pulse
	ctx   context.Context // ends with the machine; its cause says how
	end   context.CancelCauseFunc
}

// newTarget boots the first machine of a suite.
func newTarget(ctx context.Context, l *lab.Lab, suite string, logf func(string, ...any)) (*target, error) {
	im, err := lab.OpenImage(suite)
	if err != nil {
		return nil, err
	}
	t := &target{im: im, logf: logf, boot: func(ctx context.Context) (*life, error) { return newLife(ctx, l, im) }}
	t.now, err = t.boot(ctx)
	return t, err
}

// newLife boots a machine, and starts what watches it.
func newLife(ctx context.Context, l *lab.Lab, im *lab.Image) (*life, error) {
	g, err := l.Boot(ctx, lab.GuestConfig{Name: im.Suite, Image: im})
	if err != nil {
		return nil, err
	}
	v := &life{machine: g}
	v.ctx, v.end = context.WithCancelCause(ctx)
	if v.p, err = hosts.NewRXE(v.ctx, g); err == nil {
		v.pulse, err = g.StartPulse(v.ctx)
	}
	if err != nil {
		v.end(err)
		g.Close()
		return nil, err
	}
	go func() {
		select {
		case <-g.Gone():
			v.end(g.Err())
		case <-v.ctx.Done():
		}
	}()
	return v, nil
}

// name is that of the kernel in rows.
func (t *target) name() string { return t.im.KernelName() }

// life returns the machine that runs, or ran last.
func (t *target) life() *life {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now
}

// close ends what watches the machine, and says how it did.
func (t *target) close() {
	v := t.life()
	t.logf("%s: asked 20 times a second, %s", v.p.Name(), v.pulse.Summary())
	v.end(nil)
}

// revive replaces a machine that has died, unless another lane has done so already.
func (t *target) revive(ctx context.Context, dead *life) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now != dead {
		return nil
	}
	how := context.Cause(dead.ctx)
	if len(t.deaths) == maxDeaths {
		return how
	}
	t.deaths = append(t.deaths, how.Error())
	t.logf("%v\n%s: a new one is booted; what was running is run again", how, t.im.Suite)
	dead.machine.Close()
	v, err := t.boot(ctx)
	if err == nil {
		t.now = v
	}
	return err
}

// untilItLives runs f against the target's machine, and again against a new one if the machine dies
// meanwhile. The rows of a run against one that died are taken back.
func (t *target) untilItLives(ctx context.Context, all *matrix.Report, f func(*life, *matrix.Report) error) error {
	for {
		v := t.life()
		part := all.Part(v.ctx)
		err := f(v, part)
		if err != nil && v.machine.Panicked() { // it may still have to say why
			<-v.ctx.Done()
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case v.ctx.Err() == nil:
			return err
		}
		part.Withdraw()
		if err := t.revive(ctx, v); err != nil {
			return err
		}
	}
}

// kernelLog is the row on what the target's kernel complains of. A complaint is a failure; so is a
// death, if it was not the only one.
func (t *target) kernelLog(ctx context.Context, known map[string]string) (matrix.Row, error) {
	v := t.life()
	log, err := v.p.Guest().KernelTrouble(ctx)
	if err != nil {
		return matrix.Row{}, err
	}
	row := matrix.Row{Kernel: t.name(), Group: "guests", Op: "kernel log", Role: "responder", Link: v.p.Link()}
	row.Result, row.Detail = kernelResult(log, known)
	for _, how := range t.deaths {
		row.Retried = fmt.Sprintf("its machine ended, and a new one was booted: %s", strings.TrimSpace(how))
	}
	return row, nil
}
