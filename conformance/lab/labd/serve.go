//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/goroce/goroce/conformance/lab/guestproto"
)

// lingerTime bounds how long a connection whose command has ended waits for the host
// to close it: a host that vanished must not keep it for ever.
const lingerTime = 30 * time.Second

// serve runs the one command of a connection, and closes it after the host did.
//
// The host may still be sending when a command ends: the end of its input, a signal.
// Closing with that unread, TCP would reset the connection and throw away whatever of
// the command's output has not left yet, so the host's side is read to its end first.
func serve(nc net.Conn) {
	defer nc.Close()
	c := guestproto.NewConn(nc)
	serveRequest(c)
	if half, ok := nc.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_ = nc.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.Copy(io.Discard, nc)
}

// serveRequest reads the connection's request and answers it.
func serveRequest(c *guestproto.Conn) {
	t, p, err := c.ReadFrame()
	if err != nil || t != guestproto.TypeRequest {
		return
	}
	var req guestproto.Request
	if err := json.Unmarshal(p, &req); err != nil {
		fail(c, err)
		return
	}
	switch req.Op {
	case "exec":
		runCommand(c, req)
	case "put":
		put(c, req)
	case "get":
		get(c, req)
	default:
		fail(c, fmt.Errorf("unknown operation %q", req.Op))
	}
}

func fail(c *guestproto.Conn, err error) {
	_ = c.WriteJSON(guestproto.TypeExit, guestproto.Exit{Code: -1, Error: err.Error()})
}

// runCommand runs a process in a process group of its own until it ends; a broken
// connection kills the group.
func runCommand(c *guestproto.Conn, req guestproto.Request) {
	if len(req.Argv) == 0 {
		fail(c, fmt.Errorf("exec without a command"))
		return
	}
	cmd := exec.Command(req.Argv[0], req.Argv[1:]...)
	cmd.Env = os.Environ()
	for k, v := range req.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		fail(c, err)
		return
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		fail(c, err)
		return
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		fail(c, err)
		return
	}
	if err := cmd.Start(); err != nil {
		fail(c, err)
		return
	}
	group := processGroup{id: cmd.Process.Pid}
	go func() {
		defer stdin.Close()
		for {
			t, p, err := c.ReadFrame()
			if err != nil {
				group.signal(syscall.SIGKILL)
				return
			}
			switch {
			case t == guestproto.TypeStdin && len(p) == 0:
				stdin.Close()
			case t == guestproto.TypeStdin:
				_, _ = stdin.Write(p)
			case t == guestproto.TypeSignal && len(p) == 1:
				group.signal(syscall.Signal(p[0]))
			}
		}
	}()
	var wg sync.WaitGroup
	wg.Add(2)
	go func() { defer wg.Done(); _, _ = io.Copy(c.Writer(guestproto.TypeStdout), stdout) }()
	go func() { defer wg.Done(); _, _ = io.Copy(c.Writer(guestproto.TypeStderr), stderr) }()
	wg.Wait()
	err = cmd.Wait()
	group.end()
	exit := guestproto.Exit{Code: cmd.ProcessState.ExitCode()}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		exit.Signal = int(ws.Signal())
	}
	if _, isExit := err.(*exec.ExitError); err != nil && !isExit {
		exit.Error = err.Error()
	}
	_ = c.WriteJSON(guestproto.TypeExit, exit)
}

// processGroup is a command's process group, which signals reach until it has ended:
// after that its number may be another's.
type processGroup struct {
	id int

	mu    sync.Mutex
	ended bool
}

func (g *processGroup) signal(s syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ended {
		_ = syscall.Kill(-g.id, s)
	}
}

func (g *processGroup) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
}

func put(c *guestproto.Conn, req guestproto.Request) {
	if err := os.MkdirAll(filepath.Dir(req.Path), 0o755); err != nil {
		fail(c, err)
		return
	}
	// A program that runs cannot be opened for writing, so replace instead.
	_ = os.Remove(req.Path)
	f, err := os.OpenFile(req.Path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, os.FileMode(req.Mode&0o777))
	if err != nil {
		fail(c, err)
		return
	}
	for {
		t, p, err := c.ReadFrame()
		if err != nil {
			f.Close()
			return
		}
		if t != guestproto.TypeStdin {
			continue
		}
		if len(p) == 0 {
			break
		}
		if _, err := f.Write(p); err != nil {
			f.Close()
			fail(c, err)
			return
		}
	}
	if err := f.Close(); err != nil {
		fail(c, err)
		return
	}
	_ = c.WriteJSON(guestproto.TypeExit, guestproto.Exit{})
}

func get(c *guestproto.Conn, req guestproto.Request) {
	f, err := os.Open(req.Path)
	if err != nil {
		fail(c, err)
		return
	}
	defer f.Close()
	if _, err := io.Copy(c.Writer(guestproto.TypeStdout), f); err != nil {
		fail(c, err)
		return
	}
	_ = c.WriteJSON(guestproto.TypeExit, guestproto.Exit{})
}
