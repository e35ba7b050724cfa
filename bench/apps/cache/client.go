package cache

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
)

// ErrNotFound is the error of Get and Delete for a key that the cache does not have.
var ErrNotFound = errors.New("cache: no such key")

// Client asks one server. Its methods may be called from any goroutine.
type Client struct {
	device *verbs.Device
	addr   string

	// turn has a token for the one that connects or exchanges messages: an answer belongs to the
	// last request. It is no mutex, since its holder waits for the network, which simulated time
	// has to know.
	turn chan struct{}
	conn *session
	ends bool
	buf  [512]byte
}

// session is one connection, and the table that the server has told us of on it.
type session struct {
	c  *roce.Conn
	mu sync.Mutex
	t  remoteTable
}

// remoteTable is where the server's table is.
type remoteTable struct {
	memory roce.RemoteMemory
	homes  int
	seed   uint64
}

// Dial makes a client. It connects with the first request. d is the device to use; nil is that of
// the process.
func Dial(d *verbs.Device, addr string) *Client {
	return &Client{device: d, addr: addr, turn: make(chan struct{}, 1)}
}

func (cl *Client) lock()   { cl.turn <- struct{}{} }
func (cl *Client) unlock() { <-cl.turn }

// Close ends the client.
func (cl *Client) Close() error {
	cl.lock()
	defer cl.unlock()
	cl.ends = true
	if cl.conn == nil {
		return nil
	}
	err := cl.conn.c.Close()
	cl.conn = nil
	return err
}

// tries is how often a GET is done again: over new connections, and when what it read was torn or
// had moved.
const tries = 10

// Get returns the value of a key, appended to b.
func (cl *Client) Get(ctx context.Context, b, key []byte) ([]byte, error) {
	if len(key) == 0 || len(key) > MaxEntry {
		return b, ErrTooLong
	}
	var slots [reach * SlotBytes]byte
	var last error
	for range tries {
		s, err := cl.session(ctx)
		if err != nil {
			return b, err
		}
		value, found, state, err := s.read(ctx, slots[:], key)
		switch {
		case err != nil:
			if ctx.Err() != nil {
				return b, err
			}
			cl.drop(s) // restarted, or slower than the patience of the server
			last = err
		case found:
			return append(b, value...), nil
		case state == slotMoved:
			last = errors.New("cache: the table has moved")
			if err := cl.learn(ctx, s); err != nil {
				if ctx.Err() != nil {
					return b, err
				}
				cl.drop(s)
			}
		case state == slotTorn:
			last = errors.New("cache: the entry is being written all the time")
		default:
			return b, ErrNotFound
		}
	}
	return b, fmt.Errorf("cache: get, %d times: %w", tries, last)
}

// GetByMessage is Get by a message that the server's program answers: to compare.
func (cl *Client) GetByMessage(ctx context.Context, b, key []byte) ([]byte, error) {
	answer, err := cl.ask(ctx, opGet, key, nil)
	if err != nil {
		return b, err
	}
	return append(b, answer...), nil
}

// Put sets the value of a key. After an error that matches roce.ErrMaybeDone it may have been set.
func (cl *Client) Put(ctx context.Context, key, value []byte) error {
	if len(key) == 0 || len(key)+len(value) > MaxEntry {
		return ErrTooLong
	}
	_, err := cl.ask(ctx, opPut, key, value)
	return err
}

// Delete takes a key out.
func (cl *Client) Delete(ctx context.Context, key []byte) error {
	_, err := cl.ask(ctx, opDelete, key, nil)
	return err
}

// ask sends a request and returns what is behind the first byte of the answer.
func (cl *Client) ask(ctx context.Context, op byte, key, value []byte) ([]byte, error) {
	s, err := cl.session(ctx)
	if err != nil {
		return nil, err
	}
	request := make([]byte, 0, 3+len(key)+len(value))
	request = append(request, op)
	if op == opPut {
		request = binary.BigEndian.AppendUint16(request, uint16(len(key)))
	}
	request = append(append(request, key...), value...)
	cl.lock()
	answer, err := cl.exchange(ctx, s, request)
	answer = append([]byte(nil), answer...)
	cl.unlock()
	if err != nil {
		cl.drop(s)
		return nil, err
	}
	switch {
	case answer[0] == ok:
		return answer[1:], nil
	case answer[0] == notFound:
		return nil, ErrNotFound
	}
	return nil, fmt.Errorf("cache: the server refused a request %q", op)
}

// exchange sends a request and waits for its answer. One that was sent may have been carried out,
// whatever became of the answer.
func (cl *Client) exchange(ctx context.Context, s *session, request []byte) ([]byte, error) {
	if err := s.c.Send(ctx, request); err != nil {
		return nil, err
	}
	n, err := s.c.Recv(ctx, cl.buf[:])
	if err == nil && n == 0 {
		err = errors.New("cache: an empty answer")
	}
	if err != nil {
		return nil, fmt.Errorf("cache: %w: %w", roce.ErrMaybeDone, err)
	}
	return cl.buf[:n], nil
}

// session returns the connection, and makes one if there is none.
func (cl *Client) session(ctx context.Context) (*session, error) {
	cl.lock()
	defer cl.unlock()
	if cl.ends {
		return nil, roce.ErrClosed
	}
	if cl.conn != nil {
		return cl.conn, nil
	}
	d := roce.Dialer{ConnConfig: roce.ConnConfig{Device: cl.device}}
	c, err := d.Dial(ctx, cl.addr)
	if err != nil {
		return nil, err
	}
	s := &session{c: c}
	if err := cl.learnLocked(ctx, s); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	cl.conn = s
	return s, nil
}

// drop ends a connection that has failed, unless another goroutine has done so.
func (cl *Client) drop(s *session) {
	cl.lock()
	defer cl.unlock()
	if cl.conn == s {
		cl.conn = nil
		s.c.Close()
	}
}

// read reads the homes of a key, one after the other, until it is found. Most keys are in the
// first.
func (s *session) read(ctx context.Context, slots, key []byte) (value []byte, found bool, state slotState, err error) {
	t := s.table()
	for _, home := range homes(t.seed, key, t.homes) {
		if err := s.c.Read(ctx, slots, t.memory.Slice(home*len(slots), len(slots))); err != nil {
			return nil, false, 0, err
		}
		value, found, state = find(slots, key)
		if found || state == slotMoved || state == slotTorn {
			break
		}
	}
	return value, found, state, nil
}

func (s *session) table() remoteTable {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.t
}

// learn asks where the table is now.
func (cl *Client) learn(ctx context.Context, s *session) error {
	cl.lock()
	defer cl.unlock()
	return cl.learnLocked(ctx, s)
}

func (cl *Client) learnLocked(ctx context.Context, s *session) error {
	answer, err := cl.exchange(ctx, s, []byte{opTable})
	if err != nil {
		return err
	}
	var t remoteTable
	if len(answer) != 1+tableBytes || answer[0] != ok || t.memory.UnmarshalBinary(answer[1:17]) != nil {
		return fmt.Errorf("cache: an answer of %d bytes about the table", len(answer))
	}
	homes := binary.BigEndian.Uint64(answer[17:])
	if homes == 0 || homes > uint64(t.memory.Len) || homes*reach*SlotBytes != uint64(t.memory.Len) {
		return fmt.Errorf("cache: a table of %d bytes with %d homes", t.memory.Len, homes)
	}
	t.homes, t.seed = int(homes), binary.BigEndian.Uint64(answer[25:])
	s.mu.Lock()
	s.t = t
	s.mu.Unlock()
	return nil
}
