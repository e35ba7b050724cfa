package paths

import (
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"

	"github.com/goroce/goroce/internal/unix"
)

// roleEnv says what a process of a run is.
const roleEnv = "GOROCE_PATHS_ROLE"

const (
	roleLink = "link"
	roleEnd  = "end"
)

// Child runs a process of a run, if this one is meant to be one, and reports whether it was. Main
// functions that call [Run] call it first.
func Child() bool {
	var err error
	switch os.Getenv(roleEnv) {
	case "":
		return false
	case roleLink:
		err = linkMain()
	default:
		err = endMain()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "paths:", err)
		os.Exit(1)
	}
	return true
}

// stdio is the connection between the coordinator and a process.
type stdio struct {
	io.Reader
	io.WriteCloser
}

// child is a process as the coordinator sees it.
type child struct {
	cmd *exec.Cmd
	c   *rpc.Client
}

// niceness is that of the ends, for those who may: what else the machine does takes little of their
// time.
const niceness = -19

// command is a command that runs before others.
func command(name string, args ...string) *exec.Cmd {
	if os.Geteuid() != 0 {
		return exec.Command(name, args...)
	}
	return exec.Command("nice", append([]string{"-n", fmt.Sprint(niceness), name}, args...)...)
}

// startChild starts this program again in a role.
func startChild(role string, files []*os.File, run func(*exec.Cmd) error) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := command(exe)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	cmd.Stderr, cmd.ExtraFiles = os.Stderr, files
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := run(cmd); err != nil {
		return nil, fmt.Errorf("start a process: %w", err)
	}
	return &child{cmd, rpc.NewClient(stdio{out, in})}, nil
}

// call calls a method.
func call[R, A any](c *child, method string, args A) (r R, err error) {
	if err = c.c.Call(method, args, &r); err != nil {
		err = fmt.Errorf("%s: %w", method, err)
	}
	return r, err
}

// tell calls a method that returns nothing.
func tell[A any](c *child, method string, args A) error {
	_, err := call[struct{}](c, method, args)
	return err
}

// end ends the process at once, whatever it is doing.
func (c *child) end() {
	_ = c.c.Close()
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// cpu is the CPU time of this process so far, in seconds.
func cpu() float64 {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}
