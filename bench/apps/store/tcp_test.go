package store

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
)

// tcpServer is a replica on TCP that can be ended and begun again.
type tcpServer struct {
	t    *testing.T
	disk *fakeDisk
	addr string
	r    *Replica
	l    net.Listener
	done chan error
}

func (s *tcpServer) start() {
	s.t.Helper()
	r, err := newReplica(s.disk)
	if err != nil {
		s.t.Fatal(err)
	}
	addr := s.addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.r, s.l, s.addr, s.done = r, l, l.Addr().String(), make(chan error, 1)
	go func() { s.done <- r.ServeTCP(l) }()
}

func (s *tcpServer) stop() {
	if s.r == nil {
		return
	}
	s.l.Close()
	s.r.Close()
	if err := <-s.done; err != nil {
		s.t.Error(err)
	}
	s.r = nil
}

func tcpPair(t *testing.T) (servers []*tcpServer, addrs []string) {
	for range 2 {
		s := &tcpServer{t: t, disk: newFakeDisk()}
		s.start()
		t.Cleanup(s.stop)
		servers, addrs = append(servers, s), append(addrs, s.addr)
	}
	return servers, addrs
}

func openTCP(t *testing.T, addrs []string) *Volume {
	t.Helper()
	v, err := OpenTCP(t.Context(), addrs, blocks)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	return v
}

// What is written by many is read, also after one replica was away; an end in the middle loses
// nothing.
func TestTCP(t *testing.T) {
	servers, addrs := tcpPair(t)
	v := openTCP(t, addrs)
	ctx := t.Context()
	write := func(v *Volume, from, to uint64) {
		var writers sync.WaitGroup
		for block := range blocks {
			writers.Go(func() {
				got := make([]byte, BlockBytes)
				for n := from; n < to; n++ {
					if err := v.WriteBlock(ctx, block, fill(n<<8|uint64(block))); err != nil {
						t.Error(err)
						return
					}
					if n%5 == 0 {
						if err := v.Flush(ctx); err != nil {
							t.Error(err)
							return
						}
					}
					if err := v.ReadBlock(ctx, block, got); err != nil || number(t, got) != n<<8|uint64(block) {
						t.Errorf("block %d: %x, %v", block, got[:8], err)
						return
					}
				}
			})
		}
		writers.Wait()
	}
	write(v, 1, 20)
	servers[0].stop()
	write(v, 20, 30)
	if err := v.Close(); err != nil {
		t.Log("close:", err)
	}
	if err := v.WriteBlock(ctx, 1, fill(1)); err == nil {
		t.Error("a closed volume was written to")
	}
	servers[0].start()
	v = openTCP(t, addrs)
	if n := v.InSync(); n != 2 {
		t.Errorf("%d replicas are in sync", n)
	}
	b := make([]byte, BlockBytes)
	for block := range blocks {
		for range 2 { // of both
			if err := v.ReadBlock(ctx, block, b); err != nil || number(t, b) != 29<<8|uint64(block) {
				t.Errorf("block %d: %x, %v", block, number(t, b), err)
			}
		}
	}
}

// The newest client has the disk.
func TestTCPFencing(t *testing.T) {
	_, addrs := tcpPair(t)
	older := openTCP(t, addrs)
	ctx := t.Context()
	if err := older.WriteBlock(ctx, 1, fill(1)); err != nil {
		t.Fatal(err)
	}
	older.end() // it does not connect again
	newer := openTCP(t, addrs)
	if err := newer.WriteBlock(ctx, 1, fill(2)); err != nil {
		t.Fatal(err)
	}
	if err := older.WriteBlock(ctx, 1, fill(3)); err == nil {
		t.Error("an older client has written")
	}
	b := make([]byte, BlockBytes)
	if err := newer.ReadBlock(ctx, 1, b); err != nil || number(t, b) != 2 {
		t.Errorf("%d, %v", number(t, b), err)
	}
}

// What is no request ends the connection, and changes nothing.
func TestTCPBadRequests(t *testing.T) {
	servers, addrs := tcpPair(t)
	before := slices.Clone(servers[0].disk.memory)
	request := func(op byte, n uint32, at uint64) []byte {
		b := make([]byte, tcpHead, tcpHead+8)
		b[0] = op
		binary.BigEndian.PutUint32(b[4:], n)
		binary.BigEndian.PutUint64(b[8:], at)
		return append(b, "12345678"...)
	}
	for name, b := range map[string][]byte{
		"no operation":      request(9, 8, 0),
		"behind the disk":   request(tcpWrite, 8, uint64(len(before)-7)),
		"far behind":        request(tcpRead, 8, 1<<63),
		"wraps":             request(tcpRead, 1<<31, ^uint64(0)),
		"more than a slot":  request(tcpWrite, slotBytes+1, 0),
		"the end is missed": request(tcpWrite, 9, 0),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", addrs[0])
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write(b); err != nil {
				t.Fatal(err)
			}
			c.(*net.TCPConn).CloseWrite()
			got, _ := io.ReadAll(c) // it may be reset
			if len(got) > 9 {
				t.Errorf("%d bytes", len(got))
			}
		})
	}
	servers[0].stop()
	if !slices.Equal(before, servers[0].disk.memory) {
		t.Error("the disk has changed")
	}
}

// A replica that says nothing is waited for until the caller has had enough, also in the middle of
// an operation.
func TestTCPSilence(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			gone <- err
			return
		}
		defer c.Close()
		c.Write(binary.BigEndian.AppendUint64(nil, uint64(diskBytes(blocks))))
		_, err = io.ReadFull(c, make([]byte, tcpHead))
		cancel()
		if _, e := c.Read(make([]byte, 1)); e == nil {
			err = errors.New("the client goes on")
		}
		gone <- err
	}()
	if _, err := OpenTCP(ctx, []string{l.Addr().String()}, blocks); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := <-gone; err != nil {
		t.Error(err)
	}
}
