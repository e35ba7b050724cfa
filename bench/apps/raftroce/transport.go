package raftroce

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/hashicorp/raft"
)

// Config is what a transport is made with.
type Config struct {
	Device *verbs.Device // nil is that of the process
	Addr   string        // where this server listens, and how the others know it
	// RingBytes is how much a peer may have sent that was not answered: more than raft's
	// MaxAppendEntries of the largest entries. 0 is 4 MiB, 256 MiB are the most.
	RingBytes int
	// Timeout is how long a request may take; 0 is 10 s. A snapshot has that for each 256 KiB.
	Timeout time.Duration
}

// Transport is a raft.Transport. It has the methods of raft.WithPreVote and raft.WithClose, too.
type Transport struct {
	cfg       Config
	l         *roce.Listener
	requests  chan raft.RPC
	heartbeat atomic.Pointer[func(raft.RPC)]
	ctx       context.Context // ends with the transport
	end       context.CancelFunc
	served    chan struct{}

	mu     sync.Mutex
	idle   map[raft.ServerAddress][]*session
	closed bool
}

// maxIdle is how many connections to a server are kept for later requests.
const maxIdle = 3

// New makes a transport that listens.
func New(ctx context.Context, cfg Config) (*Transport, error) {
	if cfg.RingBytes == 0 {
		cfg.RingBytes = 4 << 20
	}
	if cfg.RingBytes < 1 || cfg.RingBytes > maxRing {
		return nil, fmt.Errorf("raftroce: RingBytes %d; 1 to %d", cfg.RingBytes, maxRing)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	t := &Transport{cfg: cfg, requests: make(chan raft.RPC), idle: map[raft.ServerAddress][]*session{},
		served: make(chan struct{})}
	lc := roce.ListenConfig{ConnConfig: t.config()}
	l, err := lc.Listen(ctx, cfg.Addr)
	if err != nil {
		return nil, err
	}
	t.l = l
	t.ctx, t.end = context.WithCancel(context.Background())
	go func() {
		defer close(t.served)
		l.Serve(t.ctx, t.serve)
	}()
	return t, nil
}

// config is that of connections in both directions. Peers that are silent for longer than a request
// may take are gone: what was asked of them fails then, and raft tries again.
func (t *Transport) config() roce.ConnConfig {
	return roce.ConnConfig{Device: t.cfg.Device, KeepAlive: time.Second, SilenceTimeout: t.cfg.Timeout,
		RecvBytes: answerBytes}
}

// Close ends the listener and all connections.
func (t *Transport) Close() error {
	t.mu.Lock()
	idle := t.idle
	t.idle, t.closed = nil, true
	t.mu.Unlock()
	t.end()
	err := t.l.Close()
	for _, sessions := range idle {
		for _, s := range sessions {
			s.c.Close()
		}
	}
	<-t.served
	return err
}

// Consumer, LocalAddr, EncodePeer, DecodePeer and SetHeartbeatHandler are as raft.Transport says.
func (t *Transport) Consumer() <-chan raft.RPC { return t.requests }

// LocalAddr returns Config.Addr.
func (t *Transport) LocalAddr() raft.ServerAddress { return raft.ServerAddress(t.cfg.Addr) }

// EncodePeer returns the address.
func (t *Transport) EncodePeer(_ raft.ServerID, addr raft.ServerAddress) []byte { return []byte(addr) }

// DecodePeer returns the address.
func (t *Transport) DecodePeer(b []byte) raft.ServerAddress { return raft.ServerAddress(b) }

// SetHeartbeatHandler sets the function that gets heartbeats past the queue of requests.
func (t *Transport) SetHeartbeatHandler(f func(raft.RPC)) { t.heartbeat.Store(&f) }

// session returns a connection that nobody uses, or makes one.
func (t *Transport) session(ctx context.Context, target raft.ServerAddress) (*session, error) {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil, raft.ErrTransportShutdown
	}
	if idle := t.idle[target]; len(idle) > 0 {
		s := idle[len(idle)-1]
		t.idle[target] = idle[:len(idle)-1]
		t.mu.Unlock()
		return s, nil
	}
	t.mu.Unlock()
	return t.dial(ctx, target)
}

// done gives a connection back, or ends one that has failed. One on which a peer said that it
// could not do it goes on.
func (t *Transport) done(target raft.ServerAddress, s *session, err error) error {
	var remote *RemoteError
	if err == nil || errors.As(err, &remote) {
		t.mu.Lock()
		if !t.closed && len(t.idle[target]) < maxIdle {
			t.idle[target] = append(t.idle[target], s)
			s = nil
		}
		t.mu.Unlock()
	}
	if s != nil {
		s.c.Close()
	}
	return err
}

// call sends a request and waits for its answer.
func (t *Transport) call(target raft.ServerAddress, k kind, request, response any) error {
	ctx, cancel := context.WithTimeout(t.ctx, t.cfg.Timeout)
	defer cancel()
	s, err := t.session(ctx, target)
	if err != nil {
		return err
	}
	err = s.post(ctx, k, request)
	if err == nil {
		err = s.answer(ctx, response, nil)
	}
	return t.done(target, s, err)
}

// AppendEntries asks a follower to append, or, without entries, tells it that there is a leader.
func (t *Transport) AppendEntries(_ raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) error {
	return t.call(target, kindAppend, args, resp)
}

// RequestVote asks for a vote.
func (t *Transport) RequestVote(_ raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest,
	resp *raft.RequestVoteResponse) error {
	return t.call(target, kindVote, args, resp)
}

// RequestPreVote asks whether a vote would be given.
func (t *Transport) RequestPreVote(_ raft.ServerID, target raft.ServerAddress,
	args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return t.call(target, kindPreVote, args, resp)
}

// TimeoutNow asks a server to stand for election.
func (t *Transport) TimeoutNow(_ raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest,
	resp *raft.TimeoutNowResponse) error {
	return t.call(target, kindTimeoutNow, args, resp)
}

// InstallSnapshot lends a follower a snapshot, which it reads.
func (t *Transport) InstallSnapshot(_ raft.ServerID, target raft.ServerAddress,
	args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	timeout := t.cfg.Timeout * time.Duration(1+args.Size/(256<<10))
	ctx, cancel := context.WithTimeout(t.ctx, timeout)
	defer cancel()
	s, err := t.session(ctx, target)
	if err != nil {
		return err
	}
	return t.done(target, s, s.snapshot(ctx, args, resp, data))
}
