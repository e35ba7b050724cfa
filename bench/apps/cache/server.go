package cache

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
)

// The first byte of a message says what the client wants, and that of an answer what came of it.
const (
	opTable  = 't' // where is the table? Answered with tableBytes.
	opPut    = 'p' // 2 bytes length of key, key, value
	opDelete = 'd' // key
	opGet    = 'g' // key: only for what measures what a GET by message takes

	ok       = 'o'
	notFound = 'n'
	refused  = 'r'
)

// tableBytes is the length of what a client is told about a table: where it is, how many homes it
// has, and the seed of their hash.
const tableBytes = 16 + 8 + 8

// patience is how long a client may take to ask for the new table, before the old one goes.
const patience = time.Second

// sparse is how many slots a table may have for each entry. By chance no table comes near it:
// beyond it keys were chosen to meet.
const sparse = 64

// ErrFull is why a PUT is refused whose key belongs where too many others do.
var ErrFull = errors.New("cache: too many keys with one home")

// Server holds the entries.
type Server struct {
	l  *roce.Listener
	pd *verbs.PD

	mu      sync.Mutex
	entries int
	version uint64
	now     *table
	old     []*table
	clients map[*roce.Conn]*table // what each has been told of last
	seed    uint64
	grown   int
	gets    int // by message
}

// table is one memory region of slots.
type table struct {
	mr    *verbs.MR
	homes int // of reach slots each
	ended *time.Timer
}

// Listen makes a server with room for about slots entries, which grows. d is the device to use;
// addr is one of its addresses.
func Listen(ctx context.Context, d *verbs.Device, addr string, slots int) (*Server, error) {
	pd, err := d.AllocPD()
	if err != nil {
		return nil, err
	}
	s := &Server{pd: pd, clients: map[*roce.Conn]*table{}, seed: newSeed()}
	if s.now, err = s.newTable(max(slots/reach, 1)); err != nil {
		return nil, errors.Join(err, pd.Close())
	}
	lc := roce.ListenConfig{ConnConfig: roce.ConnConfig{Device: d, PD: pd, RecvBytes: 1024}}
	if s.l, err = lc.Listen(ctx, addr); err != nil {
		return nil, errors.Join(err, s.now.mr.Close(), pd.Close())
	}
	return s, nil
}

func (s *Server) newTable(homes int) (*table, error) {
	memory := make([]byte, homes*reach*SlotBytes)
	for slot := memory; len(slot) > 0; slot = slot[SlotBytes:] {
		encodeSlot(slot[:SlotBytes], 0, nil, nil)
	}
	mr, err := s.pd.RegisterMR(memory, verbs.RemoteRead, nil)
	return &table{mr: mr, homes: homes}, err
}

// Serve answers clients until the context ends or the server is closed.
func (s *Server) Serve(ctx context.Context) error { return s.l.Serve(ctx, s.client) }

// Close ends the server, its clients and its memory.
func (s *Server) Close() error {
	err := s.l.Close()
	s.mu.Lock()
	clients := make([]*roce.Conn, 0, len(s.clients))
	for c := range s.clients {
		clients = append(clients, c)
	}
	s.mu.Unlock()
	for _, c := range clients {
		c.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range append(s.old, s.now) {
		if t.ended != nil {
			t.ended.Stop()
		}
		err = errors.Join(err, t.mr.Close())
	}
	s.old = nil
	return errors.Join(err, s.pd.Close())
}

// Stats is what a server has.
type Stats struct {
	Entries int
	Bytes   int // of all tables that clients may read
	Grown   int // how often the table became larger
	Gets    int // entries that were asked for by message; those that were read cost nothing, and are not known
}

// Stats returns a snapshot.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{Entries: s.entries, Bytes: s.now.mr.Len(), Grown: s.grown, Gets: s.gets}
	for _, t := range s.old {
		st.Bytes += t.mr.Len()
	}
	return st
}

// client serves one connection.
func (s *Server) client(ctx context.Context, c *roce.Conn) error {
	s.mu.Lock()
	s.clients[c] = nil
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.clients, c)
		s.giveBack()
	}()
	answer := make([]byte, 0, 512)
	for {
		m, err := c.RecvMsg(ctx)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		answer = s.answer(answer[:0], c, m.Bytes())
		if err := m.Release(); err != nil {
			return err
		}
		if err := c.Send(ctx, answer); err != nil {
			return err
		}
	}
}

// answer carries a request out. What is no request is refused.
func (s *Server) answer(b []byte, c *roce.Conn, request []byte) []byte {
	if len(request) == 0 {
		return append(b, refused)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch op, rest := request[0], request[1:]; op {
	case opTable:
		s.clients[c] = s.now
		s.giveBack()
		b, _ = s.now.mr.Remote().AppendBinary(append(b, ok))
		b = binary.BigEndian.AppendUint64(b, uint64(s.now.homes))
		return binary.BigEndian.AppendUint64(b, s.seed)
	case opPut:
		if len(rest) < 2 {
			return append(b, refused)
		}
		k := int(binary.BigEndian.Uint16(rest))
		rest = rest[2:]
		if k == 0 || k > len(rest) || len(rest) > MaxEntry || s.put(rest[:k], rest[k:]) != nil {
			return append(b, refused)
		}
		return append(b, ok)
	case opDelete:
		if s.delete(rest) {
			return append(b, ok)
		}
		return append(b, notFound)
	case opGet:
		s.gets++
		for _, at := range homes(s.seed, rest, s.now.homes) {
			if value, found, _ := find(s.now.slots(at), rest); found {
				return append(append(b, ok), value...)
			}
		}
		return append(b, notFound)
	}
	return append(b, refused)
}

// slots returns the slots of a home. The server's program may look at them, as it is the only one
// that writes to them.
func (t *table) slots(home int) []byte {
	return t.mr.Bytes()[home*reach*SlotBytes:][:reach*SlotBytes]
}

// set writes an entry to a slot. WriteAt does it in order with the READs of clients: no packet of
// an answer has half of it.
func (s *Server) set(t *table, i int, k, v []byte) error {
	var slot [SlotBytes]byte
	s.version++
	encodeSlot(slot[:], s.version, k, v)
	_, err := t.mr.WriteAt(slot[:], int64(i)*SlotBytes)
	return err
}

// place returns the slot that has a key, or one that is free for it, or -1.
func (t *table) place(seed uint64, key []byte) (i int, has bool) {
	free := -1
	for _, home := range homes(seed, key, t.homes) {
		slots := t.slots(home)
		for i := range reach {
			k, _, state := decodeSlot(slots[i*SlotBytes:][:SlotBytes])
			if state == slotEntry && string(k) == string(key) {
				return home*reach + i, true
			}
			if state == slotEmpty && free < 0 {
				free = home*reach + i
			}
		}
	}
	return free, false
}

func (s *Server) put(key, value []byte) error {
	for {
		i, has := s.now.place(s.seed, key)
		if i >= 0 {
			if !has {
				s.entries++
			}
			return s.set(s.now, i, key, value)
		}
		if err := s.grow(); err != nil {
			return err
		}
	}
}

func (s *Server) delete(key []byte) bool {
	i, has := s.now.place(s.seed, key)
	if has {
		s.entries--
		return s.set(s.now, i, nil, nil) == nil
	}
	return false
}

// grow makes a table of twice the size or more, in which all entries have room, and says in the old
// one that they have moved.
func (s *Server) grow() error {
	n := 2 * s.now.homes
again:
	if n*reach > sparse*(s.entries+1) {
		return ErrFull
	}
	t, err := s.newTable(n)
	if err != nil {
		return err
	}
	all := s.now.mr.Bytes()
	for slot := all; len(slot) > 0; slot = slot[SlotBytes:] {
		k, v, state := decodeSlot(slot[:SlotBytes])
		if state != slotEntry {
			continue
		}
		i, _ := t.place(s.seed, k)
		if i < 0 {
			n *= 2
			if err := t.mr.Close(); err != nil {
				return err
			}
			goto again
		}
		if err := s.set(t, i, k, v); err != nil {
			return err
		}
	}
	var gone [SlotBytes]byte
	encodeSlot(gone[:], moved, nil, nil)
	for at := 0; at < len(all); at += SlotBytes {
		if _, err := s.now.mr.WriteAt(gone[:], int64(at)); err != nil {
			return err
		}
	}
	old := s.now
	s.now, s.old = t, append(s.old, old)
	s.grown++
	old.ended = time.AfterFunc(patience, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.free(old)
	})
	s.giveBack()
	return nil
}

// giveBack frees old tables that no client may still read.
func (s *Server) giveBack() {
	for _, t := range append([]*table(nil), s.old...) {
		used := false
		for _, has := range s.clients {
			used = used || has == t
		}
		if !used {
			s.free(t)
		}
	}
}

// free takes the key of an old table away and drops its memory. It does nothing the second time.
func (s *Server) free(t *table) {
	for i, o := range s.old {
		if o == t {
			s.old = append(s.old[:i], s.old[i+1:]...)
			t.ended.Stop()
			t.mr.Close()
			return
		}
	}
}
