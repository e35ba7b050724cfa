// Command quic is the end of a measurement that "bench -items paths" compares goroce with: a
// transfer by quic-go over one connection, and small messages over another. It is in this module
// for the sake of what quic-go needs.
//
// "quic serve ADDR:PORT" takes, and "quic send ADDR:PORT [ping]" sends until its standard input
// ends. For each line that it reads it prints what was done so far, as JSON.
package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/sys/unix"
)

// Sizes and times are those of package paths.
const (
	chunkBytes = 256 << 10
	pingBytes  = 64
	pingEvery  = 2 * time.Millisecond
	protocol   = "goroce-paths"
)

// The first byte of a stream says what it is for.
const (
	streamSink = 's'
	streamEcho = 'e'
)

// sample is what package paths reads.
type sample struct {
	Ns      int64
	Bytes   [2]int64
	CPU     float64
	Failure string
	Trips   []float64 // us
}

// work is what this process has done.
type work struct {
	bytes atomic.Int64
	mu    sync.Mutex
	fail  string
	trips []float64
}

func main() {
	w := &work{}
	args := os.Args[1:]
	if len(args) < 2 {
		fmt.Fprintln(os.Stderr, "quic serve|send ADDR:PORT [ping]")
		os.Exit(2)
	}
	ready := make(chan struct{})
	go func() {
		var err error
		if args[0] == "serve" {
			err = w.serve(args[1], ready)
		} else {
			err = w.send(args[1], len(args) > 2, ready)
		}
		if err == nil {
			err = errors.New("ended")
		}
		fmt.Fprintln(os.Stderr, "quic:", err)
		w.mu.Lock()
		w.fail = err.Error()
		w.mu.Unlock()
	}()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		select {
		case <-ready:
		case <-time.After(10 * time.Second):
		}
		b, _ := json.Marshal(w.sample())
		fmt.Printf("%s\n", b)
	}
}

func (w *work) sample() (s sample) {
	var r unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &r)
	s.CPU = float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
	s.Ns, s.Bytes[0] = monotonic(), w.bytes.Load()
	w.mu.Lock()
	defer w.mu.Unlock()
	s.Failure, s.Trips = w.fail, w.trips
	w.trips = nil
	return s
}

func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}

// config has no limits of flow control that a path of the table would meet.
func config() *quic.Config {
	return &quic.Config{InitialStreamReceiveWindow: 16 << 20, MaxStreamReceiveWindow: 64 << 20,
		InitialConnectionReceiveWindow: 16 << 20, MaxConnectionReceiveWindow: 64 << 20}
}

func (w *work) serve(at string, ready chan struct{}) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return err
	}
	conf := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		NextProtos: []string{protocol}}
	l, err := quic.ListenAddr(at, conf, config())
	if err != nil {
		return err
	}
	close(ready)
	for {
		c, err := l.Accept(context.Background())
		if err != nil {
			return err
		}
		go func() {
			for {
				s, err := c.AcceptStream(context.Background())
				if err != nil {
					return
				}
				go w.take(s)
			}
		}()
	}
}

// take does with a stream what its first byte says.
func (w *work) take(s *quic.Stream) {
	b := make([]byte, chunkBytes)
	if _, err := io.ReadFull(s, b[:1]); err != nil {
		return
	}
	if b[0] == streamEcho {
		for {
			if _, err := io.ReadFull(s, b[:pingBytes]); err != nil {
				return
			}
			if _, err := s.Write(b[:pingBytes]); err != nil {
				return
			}
		}
	}
	for {
		n, err := s.Read(b)
		w.bytes.Add(int64(n))
		if err != nil {
			return
		}
	}
}

func (w *work) send(to string, ping bool, ready chan struct{}) error {
	s, err := open(to, streamSink)
	if err != nil {
		return err
	}
	if ping {
		p, err := open(to, streamEcho)
		if err != nil {
			return err
		}
		go w.echoes(p)
		go asks(p)
	}
	close(ready)
	b := make([]byte, chunkBytes)
	for i := range b {
		b[i] = byte(i * 31 >> 3)
	}
	for {
		if _, err := s.Write(b); err != nil {
			return err
		}
	}
}

// open opens a stream of a connection of its own.
func open(to string, first byte) (*quic.Stream, error) {
	conf := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}
	c, err := quic.DialAddr(context.Background(), to, conf, config())
	if err != nil {
		return nil, err
	}
	s, err := c.OpenStreamSync(context.Background())
	if err == nil {
		_, err = s.Write([]byte{first})
	}
	return s, err
}

func asks(s *quic.Stream) {
	b := make([]byte, pingBytes)
	for {
		binary.NativeEndian.PutUint64(b, uint64(monotonic()))
		if _, err := s.Write(b); err != nil {
			return
		}
		time.Sleep(pingEvery)
	}
}

func (w *work) echoes(s *quic.Stream) {
	b := make([]byte, pingBytes)
	for {
		if _, err := io.ReadFull(s, b); err != nil {
			return
		}
		took := float64(monotonic()-int64(binary.NativeEndian.Uint64(b))) / 1e3
		w.mu.Lock()
		w.trips = append(w.trips, took)
		w.mu.Unlock()
	}
}
