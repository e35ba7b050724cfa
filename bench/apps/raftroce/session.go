package raftroce

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/hashicorp/raft"
)

// session is one connection to a follower, seen from the asking side.
type session struct {
	c      *roce.Conn
	peer   roce.RemoteMemory // its ring
	mirror *verbs.MR         // what we have in it
	ring   *ring
	window *verbs.MR // the part of a snapshot that the follower may read; made when there is one
	buf    []byte
}

// maxRing is the longest ring of a peer that we mirror: our memory is not the peer's to take.
const maxRing = 256 << 20

// dial connects, and learns where the ring is.
func (t *Transport) dial(ctx context.Context, target raft.ServerAddress) (*session, error) {
	d := roce.Dialer{ConnConfig: t.config()}
	c, err := d.Dial(ctx, string(target))
	if err != nil {
		return nil, err
	}
	s := &session{c: c}
	s.peer, err = c.Shared(ctx)
	if err == nil && s.peer.Len > maxRing {
		err = fmt.Errorf("raftroce: a ring of %d bytes; %d are the most", s.peer.Len, maxRing)
	}
	if err == nil {
		s.mirror, err = c.Register(make([]byte, s.peer.Len), 0)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	s.ring = newRing(int(s.peer.Len))
	return s, nil
}

// post writes a request to the ring and returns when it is on its way.
func (s *session) post(ctx context.Context, k kind, request any) error {
	s.buf = encode(append(s.buf[:0], byte(k)), request)
	return s.write(ctx, s.buf)
}

func (s *session) write(ctx context.Context, b []byte) error {
	at, err := s.ring.take(ctx, len(b))
	if err != nil {
		return err
	}
	copy(s.mirror.Bytes()[at:], b)
	_, err = s.c.StartWriteImm(ctx, s.peer.Slice(at, len(b)), uint32(len(b)), s.mirror.SGE(at, len(b)))
	return err
}

// answer waits for the answer to the oldest request. A request for more of a snapshot goes to more.
func (s *session) answer(ctx context.Context, response any, more func() error) error {
	for {
		m, err := s.c.RecvMsg(ctx)
		if err != nil {
			return err
		}
		b := m.Bytes()
		if len(b) == 0 {
			return errors.Join(errMalformed, m.Release())
		}
		what := b[0]
		switch what {
		case answerOK:
			err = decode(b[1:], response)
		case answerError:
			err = &RemoteError{string(b[1:])}
		case answerMore:
			if more == nil {
				err = errMalformed
			}
		default:
			err = errMalformed
		}
		if e := m.Release(); e != nil {
			return errors.Join(err, e)
		}
		s.ring.give()
		if what != answerMore || err != nil {
			return err
		}
		if err := more(); err != nil {
			return err
		}
	}
}

// RemoteError is what another server's raft answered in place of an answer. The connection goes on.
type RemoteError struct{ Text string }

func (e *RemoteError) Error() string { return e.Text }

// windowBytes is how much of a snapshot a follower reads at a time.
const windowBytes = 1 << 20

// snapshot lends the follower one part of a snapshot after the other.
func (s *session) snapshot(ctx context.Context, args *raft.InstallSnapshotRequest,
	resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if s.window == nil {
		w, err := s.c.Register(make([]byte, windowBytes), roce.RemoteRead)
		if err != nil {
			return err
		}
		s.window = w
	}
	if err := s.post(ctx, kindSnapshot, &snapshotRequest{args, s.window.Remote()}); err != nil {
		return err
	}
	var part coder
	return s.answer(ctx, resp, func() error {
		n, err := io.ReadFull(data, s.window.Bytes())
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return fmt.Errorf("raftroce: reading the snapshot: %w", err)
		}
		part.b = part.b[:0]
		length := uint64(n)
		part.u64(&length)
		return s.write(ctx, part.b)
	})
}

// follower is one connection seen from the side that is asked.
type follower struct {
	t    *Transport
	c    *roce.Conn
	ring *verbs.MR
	at   int
	out  []byte
	// What answers are sent from, in turn.
	answers *verbs.MR
	sent    [answersUnderWay]*roce.Pending
	count   int
}

const (
	answerBytes     = 4 << 10 // the longest answer, which the receive buffers of config have room for
	answersUnderWay = 4
)

// answer sends an answer, and does not wait until the peer has it: the next request may be here
// already. With a wait, a connection had one request a round trip, so that of two under way the
// second took two.
func (f *follower) answer(ctx context.Context, b []byte) (err error) {
	if len(b) > answerBytes {
		return fmt.Errorf("raftroce: an answer of %d bytes; %d are the most", len(b), answerBytes)
	}
	slot := f.count % answersUnderWay
	if p := f.sent[slot]; p != nil {
		if err := p.Wait(ctx); err != nil {
			return err
		}
	}
	copy(f.answers.Bytes()[slot*answerBytes:], b)
	f.sent[slot], err = f.c.StartSend(ctx, f.answers.SGE(slot*answerBytes, len(b)))
	f.count++
	return err
}

// next waits for the next request and returns where it is in the ring.
func (f *follower) next(ctx context.Context) ([]byte, error) {
	m, err := f.c.RecvMsg(ctx)
	if err != nil {
		return nil, err
	}
	n, written := int(m.Imm), m.Written
	if err := m.Release(); err != nil {
		return nil, err
	}
	if !written || n == 0 || n > f.ring.Len() {
		return nil, errMalformed
	}
	var from int
	from, f.at = place(f.ring.Len(), f.at, n)
	return f.ring.Bytes()[from : from+n], nil
}

// serve is the handler of a connection.
func (t *Transport) serve(ctx context.Context, c *roce.Conn) error {
	ring, err := c.Share(ctx, make([]byte, t.cfg.RingBytes), roce.RemoteWrite)
	if err != nil {
		return err
	}
	f := &follower{t: t, c: c, ring: ring}
	if f.answers, err = c.Register(make([]byte, answersUnderWay*answerBytes), 0); err != nil {
		return err
	}
	for {
		b, err := f.next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		response, err := f.request(ctx, kind(b[0]), b[1:])
		if err != nil && response == nil {
			return err
		}
		if err != nil {
			text := err.Error()
			f.out = append(append(f.out[:0], answerError), text[:min(len(text), 1024)]...)
		} else {
			f.out = encode(append(f.out[:0], answerOK), response)
		}
		if err := f.answer(ctx, f.out); err != nil {
			return err
		}
	}
}

// request has raft carry out a request. An error with a response is raft's, and is the answer.
func (f *follower) request(ctx context.Context, k kind, b []byte) (response any, err error) {
	rpc := raft.RPC{}
	switch k {
	case kindAppend:
		rpc.Command = new(raft.AppendEntriesRequest)
	case kindVote:
		rpc.Command = new(raft.RequestVoteRequest)
	case kindPreVote:
		rpc.Command = new(raft.RequestPreVoteRequest)
	case kindTimeoutNow:
		rpc.Command = new(raft.TimeoutNowRequest)
	case kindSnapshot:
		q := &snapshotRequest{InstallSnapshotRequest: new(raft.InstallSnapshotRequest)}
		if err := decode(b, q); err != nil {
			return nil, err
		}
		rpc.Command, rpc.Reader = q.InstallSnapshotRequest,
			&snapshotReader{ctx: ctx, f: f, window: q.window, left: q.Size}
	default:
		return nil, errMalformed
	}
	if k != kindSnapshot {
		if err := decode(b, rpc.Command); err != nil {
			return nil, err
		}
	}
	answered := make(chan raft.RPCResponse, 1)
	rpc.RespChan = answered
	if beat := f.t.heartbeat.Load(); beat != nil && isHeartbeat(rpc.Command) {
		(*beat)(rpc) // past what waits for the disk
	} else {
		select {
		case f.t.requests <- rpc:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	select {
	case r := <-answered:
		if r.Error != nil {
			return struct{}{}, r.Error
		}
		return r.Response, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// isHeartbeat reports whether a request only says that there is a leader.
func isHeartbeat(command any) bool {
	r, ok := command.(*raft.AppendEntriesRequest)
	return ok && r.Term != 0 && r.PrevLogEntry == 0 && r.PrevLogTerm == 0 && len(r.Entries) == 0 &&
		r.LeaderCommitIndex == 0
}

// snapshotReader reads a snapshot out of the leader's memory. The handler of the connection waits
// for raft meanwhile, so the connection is ours.
type snapshotReader struct {
	ctx    context.Context
	f      *follower
	window roce.RemoteMemory
	at     int   // what of the window was read
	filled int   // what the leader has put there
	left   int64 // of the snapshot
}

func (r *snapshotReader) Read(p []byte) (int, error) {
	if r.left <= 0 { // the size is the peer's word
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	if r.at == r.filled {
		if err := r.f.c.Send(r.ctx, []byte{answerMore}); err != nil {
			return 0, err
		}
		b, err := r.f.next(r.ctx)
		if err != nil {
			return 0, err
		}
		c, n := coder{b: b, decode: true}, uint64(0)
		c.u64(&n)
		if c.failed || n > uint64(r.window.Len) {
			return 0, errMalformed
		}
		if n == 0 {
			return 0, io.ErrUnexpectedEOF
		}
		r.at, r.filled = 0, int(n)
	}
	n := int(min(int64(len(p)), int64(r.filled-r.at), r.left))
	if err := r.f.c.Read(r.ctx, p[:n], r.window.Slice(r.at, n)); err != nil {
		return 0, err
	}
	r.at += n
	r.left -= int64(n)
	return n, nil
}
