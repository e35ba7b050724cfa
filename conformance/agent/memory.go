package agent

import (
	"encoding/hex"

	"github.com/goroce/goroce/conformance/peer"
)

var memoryCommands = map[string]func(*session) error{"fill": (*session).fill, "check": (*session).check,
	"write": (*session).write, "read": (*session).read}

// maxRead is how many bytes can be read at a time.
const maxRead = 65536

// fence orders this goroutine's accesses to memory with those of the device: what a peer has done
// by one-sided operations makes no event here, and taking the device's lock is one.
func (s *session) fence() { s.dev().Counters() }

// memory is the part of a buffer that is meant.
func (s *session) memory(n uint64) []byte {
	return s.span(object[*buffer](s, "buf"), s.num("off", 0), n)
}

// pattern reads the arguments of fill and check.
func (s *session) pattern() (b []byte, seed uint64, base int) {
	n, seed, base := s.need("len"), s.need("seed"), s.size("base", 0)
	return s.memory(n), seed, base
}

func (s *session) fill() error {
	b, seed, base := s.pattern()
	if s.bad != nil {
		return s.bad
	}
	s.fence()
	defer s.fence()
	peer.FillPattern(b, seed, base)
	return nil
}

func (s *session) check() error {
	b, seed, base := s.pattern()
	if s.bad != nil {
		return s.bad
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
	b := s.memory(uint64(len(data)))
	if s.bad != nil {
		return s.bad
	}
	s.fence()
	defer s.fence()
	peer.CopyMemory(b, data)
	return nil
}

func (s *session) read() error {
	n := s.need("len")
	if n > maxRead {
		return refuse(emsgsize, "at most %d bytes", maxRead)
	}
	b := s.memory(n)
	if s.bad != nil {
		return s.bad
	}
	s.fence()
	got := make([]byte, len(b))
	peer.CopyMemory(got, b)
	s.say("hex=%s", hex.EncodeToString(got))
	return nil
}
