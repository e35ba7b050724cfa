package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/goroce/goroce/internal/unix"
)

// process is a child, seen from outside.
type process struct {
	role
	cmd  *exec.Cmd
	in   io.WriteCloser
	said chan said     // answers; errors go to the run
	gone chan struct{} // closed when its output has ended
}

// start starts a process on one side, and returns when it is ready.
func (r *run) start(ctx context.Context, s *side, role role) (*process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	what, err := json.Marshal(role)
	if err != nil {
		return nil, err
	}
	p := &process{role: role, cmd: exec.Command(exe), said: make(chan said, 1), gone: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), roleEnv+"="+string(what))
	p.cmd.Stderr = r.stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.do(p.cmd.Start); err != nil {
		return nil, err
	}
	go p.listen(out, r)
	if _, err = p.hear(ctx, "ready"); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// listen reads what a process says.
func (p *process) listen(out io.Reader, r *run) {
	defer close(p.gone)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var s said
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			continue // killed while it wrote
		}
		if s.What == "error" {
			r.noteError(p.Name, s)
			continue
		}
		p.said <- s
	}
}

// hear waits for an answer.
func (p *process) hear(ctx context.Context, what string) (said, error) {
	select {
	case s := <-p.said:
		if s.What != what {
			return s, fmt.Errorf("%s: said %q instead of %q: %s", p.Name, s.What, what, s.Error)
		}
		return s, nil
	case <-p.gone:
		return said{}, fmt.Errorf("%s ended", p.Name)
	case <-ctx.Done():
		// The stacks of its goroutines say where it hangs; with them it ends.
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		return said{}, fmt.Errorf("%s did not say %q: %w", p.Name, what, context.Cause(ctx))
	}
}

// ask has the process do something, and returns its answer.
func (p *process) ask(ctx context.Context, do, answer string) (said, error) {
	if err := p.tell(do); err != nil {
		return said{}, err
	}
	return p.hear(ctx, answer)
}

func (p *process) tell(do string) error {
	if _, err := fmt.Fprintln(p.in, do); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	return nil
}

// freeze stops the process, or lets it go on.
func (p *process) freeze(on bool) error {
	if on {
		return p.cmd.Process.Signal(unix.SIGSTOP)
	}
	return p.cmd.Process.Signal(unix.SIGCONT)
}

// kill ends the process by SIGKILL, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails if it has ended
	<-p.gone
	_ = p.cmd.Wait()
}

// end lets the process end by itself.
func (p *process) end(ctx context.Context) error {
	p.in.Close()
	select {
	case <-p.gone:
		if err := p.cmd.Wait(); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		return nil
	case <-ctx.Done():
		p.kill()
		return fmt.Errorf("%s did not end: %w", p.Name, context.Cause(ctx))
	}
}
