package stat

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/processes"
	"github.com/goroce/goroce/roce/verbs"
)

// Server answers queries about the devices of this process.
type Server struct {
	ln   *net.UnixListener
	quit chan struct{}
	wg   sync.WaitGroup
	turn chan struct{} // limits the clients that are answered at a time

	mu      sync.Mutex
	devices []*verbs.Device
	conns   map[*net.UnixConn]struct{}
	closed  bool
}

// prefix begins the names of sockets; the number is that of the protocol.
const prefix = "@goroce/stat/1/"

// Serve starts answering, about the given devices and those added later. It returns at once. Closed
// devices are left out. The error is that of the system call; a process can well go on without a
// Server.
func Serve(devices ...*verbs.Device) (*Server, error) {
	var err error
	for range nameTries {
		var r [8]byte
		_, _ = rand.Read(r[:]) // never fails
		name := fmt.Sprintf("%s%d/%d/%x", prefix, os.Geteuid(), os.Getpid(), r)
		var ln *net.UnixListener
		if ln, err = net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: name}); err == nil {
			s := &Server{
				ln: ln, quit: make(chan struct{}), turn: make(chan struct{}, maxAtOnce), devices: slices.Clone(devices),
				conns: map[*net.UnixConn]struct{}{},
			}
			s.wg.Add(1)
			go s.run()
			return s, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return nil, fmt.Errorf("stat: %w", err)
}

// Add adds a device.
func (s *Server) Add(d *verbs.Device) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.devices = append(s.devices, d)
}

// Close ends the server, hangs up on current clients, and waits for that. A second call does
// nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	before := s.closed
	s.closed = true
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	if before {
		return nil
	}
	close(s.quit)
	err := s.ln.Close()
	s.wg.Wait()
	return err
}

// run accepts clients.
func (s *Server) run() {
	defer s.wg.Done()
	for {
		select {
		case s.turn <- struct{}{}:
		case <-s.quit:
			return
		}
		c, err := s.ln.AcceptUnix()
		switch {
		case err == nil:
			s.wg.Add(1)
			go s.answer(c)
			continue
		case errors.Is(err, net.ErrClosed):
			return
		}
		<-s.turn
		t := time.NewTimer(acceptPause) // most likely no descriptor is left
		select {
		case <-t.C:
		case <-s.quit:
			t.Stop()
		}
	}
}

// answer sends the answer, and hangs up.
func (s *Server) answer(c *net.UnixConn) {
	defer func() {
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		c.Close()
		<-s.turn
		s.wg.Done()
	}()
	cred, err := peerOf(c)
	if err != nil || cred.Uid != 0 && processes.Check(cred) != nil {
		return
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.conns[c] = struct{}{}
	s.devices = slices.DeleteFunc(s.devices, closed)
	devices := slices.Clone(s.devices)
	s.mu.Unlock()
	text, err := json.Marshal(snapshot(devices))
	if err != nil {
		return // all of it can be encoded
	}
	_ = c.SetWriteDeadline(time.Now().Add(writeTime))
	_, _ = c.Write(append(text, '\n'))
}

// peerOf asks the kernel for the identity of the other end.
func peerOf(c *net.UnixConn) (cred *unix.Ucred, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	if e := raw.Control(func(fd uintptr) { cred, err = processes.Of(int(fd)) }); e != nil {
		return nil, e
	}
	return cred, err
}
