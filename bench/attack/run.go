package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"time"
)

// Options say what to run.
type Options struct {
	Only   *regexp.Regexp // names of attacks; nil is all
	Before time.Duration  // how long is measured before an attack, 0 is 1.5 s
	During time.Duration  // and during it, 0 is 3 s
	Seed   uint64
	Logf   func(string, ...any)
}

// Result is a row that was measured.
type Result struct {
	Name, Knows, Does string
	Asked             int     // packets a second that were to be sent
	Rate              float64 // and that were sent
	// Before and During are what the client did: Gb/s of transfers, connections a second, or, of
	// one that is idle, the MB/s that the server sends.
	Before, During       float64
	CPUBefore, CPUDuring float64 // of the server, in processors
	WorstMs              float64 // the longest operation of the client during the attack, one that did not end included
	Failed               int     // connections that could not be made during the attack
	Ended                string  `json:",omitempty"` // why the connection has ended, if it has
	// Answered is how many bytes came to the attacker's addresses for each that it sent.
	Answered float64
}

// The two addresses. Others of 127.18 are the attacker's.
var (
	serverAddr = netip.MustParseAddr("127.18.0.1")
	clientAddr = netip.MustParseAddr("127.18.0.2")
)

const (
	answerTime = 20 * time.Second       // of a process
	warmTime   = 500 * time.Millisecond // before anything is measured
)

// Run plays the attacks, one after the other. It takes 7 seconds for each.
func Run(ctx context.Context, o Options) (results []Result, err error) {
	if o.Before == 0 {
		o.Before = 1500 * time.Millisecond
	}
	if o.During == 0 {
		o.During = 3 * time.Second
	}
	for i, a := range attacks() {
		if o.Only != nil && !o.Only.MatchString(a.Name) {
			continue
		}
		r, err := o.play(ctx, i, a)
		if err != nil {
			return results, fmt.Errorf("%s: %w", a.Name, err)
		}
		if o.Logf != nil {
			o.Logf("%s, %d/s: %s before, %s during", a.Name, a.Rate, r.figure(r.Before), r.during())
		}
		results = append(results, r)
	}
	return results, nil
}

// play plays one.
func (o *Options) play(ctx context.Context, row int, a Attack) (r Result, err error) {
	var procs []*process
	defer func() {
		for _, p := range slices.Backward(procs) {
			p.kill()
		}
	}()
	begin := func(role role) *process {
		if err != nil {
			return nil
		}
		role.Row, role.Server, role.Client, role.Seed = row, serverAddr, clientAddr, o.Seed
		p, e := start(ctx, role)
		if err = e; e == nil {
			procs = append(procs, p)
			_, err = p.ask() // it is ready
		}
		return p
	}
	server := begin(role{Is: isServer})
	if a.Idle > 0 {
		begin(role{Is: isIdle})
	}
	client := begin(role{Is: isClient})
	if err != nil {
		return r, err
	}
	wait(ctx, warmTime)
	both := func() (s, c status) {
		if err == nil {
			s, err = server.ask()
		}
		if err == nil {
			c, err = client.ask()
		}
		return s, c
	}
	s0, c0 := both()
	wait(ctx, o.Before)
	s1, c1 := both()
	attacker := begin(role{Is: isAttacker, Known: c1.Known})
	s2, c2 := both()
	var a0, a1 status
	if err == nil {
		a0, err = attacker.ask()
	}
	wait(ctx, o.During)
	s3, c3 := both()
	if err == nil {
		a1, err = attacker.ask()
	}
	if err = errors.Join(err, ctx.Err()); err != nil {
		return r, err
	}
	r = Result{Name: a.Name, Knows: a.Knows, Does: a.Does, Asked: a.Rate, Ended: c3.Ended,
		WorstMs: float64(c3.Worst) / 1e6, Failed: int(c3.Failed - c2.Failed)}
	r.Before, r.CPUBefore = did(a, s0, s1, c0, c1)
	r.During, r.CPUDuring = did(a, s2, s3, c2, c3)
	r.Rate = float64(a1.Ops-a0.Ops) / (a1.At - a0.At).Seconds()
	if n := a1.Bytes - a0.Bytes; n > 0 {
		r.Answered = float64(a1.Heard-a0.Heard) / float64(n)
	}
	return r, nil
}

// did says what was done between two answers of server and client.
func did(a Attack, s0, s1, c0, c1 status) (figure, cpu float64) {
	cpu = (s1.CPU - s0.CPU).Seconds() / (s1.At - s0.At).Seconds()
	secs := (c1.At - c0.At).Seconds()
	switch a.Does {
	case transfers:
		return float64(c1.Bytes-c0.Bytes) * 8 / 1e9 / secs, cpu
	case dials:
		return float64(c1.Ops-c0.Ops) / secs, cpu
	}
	return float64(s1.Sent-s0.Sent) / 1e6 / (s1.At - s0.At).Seconds(), cpu
}

// process is a child, seen from outside.
type process struct {
	cmd *exec.Cmd
	in  io.Writer
	out *json.Decoder
}

func start(ctx context.Context, r role) (*process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	what, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, exe)}
	p.cmd.Env = append(os.Environ(), roleEnv+"="+string(what))
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out = in, json.NewDecoder(out)
	return p, p.cmd.Start()
}

// ask returns what the process says of itself. One that does not answer is killed.
func (p *process) ask() (s status, err error) {
	t := time.AfterFunc(answerTime, func() { _ = p.cmd.Process.Kill() })
	defer t.Stop()
	if _, err = io.WriteString(p.in, "\n"); err == nil {
		err = p.out.Decode(&s)
	}
	if err != nil {
		err = fmt.Errorf("a process does not answer: %w", err)
	}
	return s, err
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails if it has ended
	_ = p.cmd.Wait()
}

// wait lets time pass.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
