package agent

import (
	"encoding/hex"

	"github.com/goroce/goroce/conformance/peer"
)

var memoryCommands = map[string]func(*session) error{"fill": (*session).fill, "check": (*session).check, "write": (*session).write, "read": (*session).read}

// maxRead is how many bytes can be read at a time.
const maxRead = 65536

// fence orders this goroutine's accesses to memory with those of the device: what a peer has done by
// one-sided operations makes no event here, and taking the device's lock is one.
func (s *session) fence() { s.dev().Counters() }

// memory is the part of a buffer that is meant.
func (s *session) memory(n uint64) ([]byte, error) {
	b, err := object[*buffer](s, "buf")
	if err != nil {
		return nil, err
	}
	off, err := s.num("off", 0)
	if err != nil {
		return nil, err
	}
	return b.span(off, n)
}

// pattern reads the arguments of fill and check.
func (s *session) pattern() (b []byte, seed uint64, base int, err error) {
	var n, from uint64
	if err := s.needed(map[string]*uint64{"len": &n, "seed": &seed}); err != nil {
		return nil, 0, 0, err
	}
	if err := s.numbers(map[string]*uint64{"base": &from}); err != nil {
		return nil, 0, 0, err
	}
	b, err = s.memory(n)
	return b, seed, clampInt(from), err
}

func (s *session) fill() error {
	b, seed, base, err := s.pattern()
	if err != nil {
		return err
	}
	s.fence()
	defer s.fence()
	peer.FillPattern(b, seed, base)
	return nil
}

func (s *session) check() error {
	b, seed, base, err := s.pattern()
	if err != nil {
		return err
	}
	s.fence()
	bad := peer.CheckPattern(b, seed, base)
	s.say("bad=%d", bad)
	if bad >= 0 {
		var got, want [1]byte
		peer.CopyMemory(got[:], b[bad:])
		peer.FillPattern(want[:], seed, base+bad)
		s.say("got=0x%02x want=0x%02x", got[0], want[0])
	}
	return nil
}

func (s *session) write() error {
	data, err := hex.DecodeString(s.str("hex"))
	if err != nil {
		return refuse(einval, "the bytes are not hexadecimal")
	}
	b, err := s.memory(uint64(len(data)))
	if err != nil {
		return err
	}
	s.fence()
	defer s.fence()
	peer.CopyMemory(b, data)
	return nil
}

func (s *session) read() error {
	n, err := s.need("len")
	if err != nil {
		return err
	}
	if n > maxRead {
		return refuse(emsgsize, "at most %d bytes", maxRead)
	}
	b, err := s.memory(n)
	if err != nil {
		return err
	}
	s.fence()
	got := make([]byte, len(b))
	peer.CopyMemory(got, b)
	s.say("hex=%s", hex.EncodeToString(got))
	return nil
}
