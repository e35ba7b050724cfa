package mesh

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// RoCE is a network of roce.Conn. The zero value uses the device of the process.
type RoCE struct {
	Device *verbs.Device
}

const (
	// depth is how many pieces may be on their way to a peer, and how many tags may wait there.
	depth = 512
	// twoPackets is the payload of two packets of the largest MTU, which share a datagram in any
	// case.
	twoPackets = 2 * 4096
	// short is the longest piece that Put sends from a copy, so that Flush does not wait for the
	// peer. Up to copies of them may be on their way: then Put waits for the oldest.
	short  = 16 << 10
	copies = 64
	// keepAlive finds a peer that is gone: with nothing on its way nobody would notice.
	keepAlive = 200 * time.Millisecond
	// silence is how long a member may stand still, on a machine that is busy or was stopped.
	silence = 5 * time.Second
)

func (n RoCE) config() roce.ConnConfig {
	return roce.ConnConfig{Device: n.Device, KeepAlive: keepAlive, SilenceTimeout: silence,
		SendDepth: 2 * depth, RecvDepth: depth, RecvBytes: 64}
}

func (n RoCE) listen(ctx context.Context, cfg Config, found func(int, Link)) (func(), error) {
	l, err := (&roce.ListenConfig{ConnConfig: n.config()}).Listen(ctx, cfg.Addrs[cfg.Rank])
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept(ctx)
			if err != nil {
				return
			}
			rank := int(binary.BigEndian.Uint32(c.PrivateData()))
			patience, cancel := context.WithTimeout(ctx, silence) // a stranger may say nothing
			if link, err := exchange(patience, c, cfg.Arena); err == nil {
				found(rank, link)
			}
			cancel()
		}
	}()
	return func() { cancel(); <-done; l.Close() }, nil
}

func (n RoCE) dial(ctx context.Context, cfg Config, rank int) (Link, error) {
	d := roce.Dialer{ConnConfig: n.config()}
	p := rdmacm.DefaultConnParam()
	p.PrivateData = binary.BigEndian.AppendUint32(nil, uint32(cfg.Rank))
	d.Param = &p
	for {
		c, err := d.Dial(ctx, cfg.Addrs[rank])
		if err == nil {
			return exchange(ctx, c, cfg.Arena)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, err
		}
		if err := pause(ctx); err != nil { // it has not begun yet
			return nil, err
		}
	}
}

// pause is the time after which a peer that does not listen yet is asked again.
func pause(ctx context.Context) error {
	t := time.NewTimer(20 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// roceLink writes to the peer's arena by WRITE with immediate.
type roceLink struct {
	c    *roce.Conn
	mine *verbs.MR         // our arena
	peer roce.RemoteMemory // the peer's
	last *roce.Pending     // of the newest Put from our arena: those before it are complete when it is

	copied *verbs.MR // of short pieces
	of     [copies]*roce.Pending
	put    int // short pieces
}

// exchange lends the peer our arena, and takes what it lends.
func exchange(ctx context.Context, c *roce.Conn, arena []byte) (Link, error) {
	mine, err := c.Share(ctx, arena, roce.RemoteWrite)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	peer, err := c.Shared(ctx)
	if err == nil && int(peer.Len) != len(arena) {
		err = fmt.Errorf("mesh: the arena of the peer has %d bytes, ours %d", peer.Len, len(arena))
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	copied, err := c.Register(make([]byte, copies*short), 0)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &roceLink{c: c, mine: mine, peer: peer, copied: copied}, nil
}

func (l *roceLink) Put(ctx context.Context, to, from, n int, tag uint32) error {
	if n > short {
		p, err := l.write(ctx, to, l.mine.SGE(from, n), tag)
		if err == nil {
			l.last = p
		}
		return err
	}
	i := l.put % copies
	if p := l.of[i]; p != nil {
		if err := p.Wait(ctx); err != nil {
			return err
		}
	}
	copy(l.copied.Bytes()[i*short:], l.mine.Bytes()[from:from+n])
	p, err := l.write(ctx, to, l.copied.SGE(i*short, n), tag)
	if err == nil {
		l.of[i] = p
		l.put++
	}
	return err
}

// write places a piece in the peer's arena and tells it the tag. A WRITE of many packets and an
// empty one with the tag leave together, and faster than one WRITE with both: see
// [roce.Conn.Start].
func (l *roceLink) write(ctx context.Context, to int, from verbs.SGE, tag uint32) (*roce.Pending, error) {
	peer := l.peer.Slice(to, int(from.Length))
	if from.Length <= twoPackets {
		return l.c.StartWriteImm(ctx, peer, tag, from)
	}
	return l.c.Start(ctx,
		verbs.SendWR{Opcode: verbs.WRWrite, RemoteAddr: peer.Addr, RKey: peer.RKey, SGList: []verbs.SGE{from}},
		verbs.SendWR{Opcode: verbs.WRWriteImm, RemoteAddr: peer.Addr, RKey: peer.RKey, Imm: tag})
}

func (l *roceLink) Flush(ctx context.Context) error {
	if l.last == nil {
		return nil
	}
	err := l.last.Wait(ctx)
	l.last = nil
	return err
}

func (l *roceLink) Next(ctx context.Context) (uint32, error) {
	m, err := l.c.RecvMsg(ctx)
	if err != nil {
		return 0, err
	}
	tag, written := m.Imm, m.Written
	if err := m.Release(); err != nil {
		return 0, err
	}
	if !written {
		return 0, errors.New("mesh: a message that is no WRITE with immediate")
	}
	return tag, nil
}

func (l *roceLink) Close() error { return l.c.Close() }
