package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
)

// Layout of the peer's memory. The window of the bandwidth test overlaps
// nothing that the other steps leave behind.
const (
	memoryBytes = 4 << 20
	wordOffset  = 0        // the word for the atomics
	dataOffset  = 4096     // the WRITE and the READ
	dataBytes   = 1 << 20  // each
	streamStart = 2 << 20  // the bandwidth test
	streamBytes = 2 << 20  // its window
	messageSize = 64 << 10 // of the bandwidth test
	helloBytes  = 10_000   // the SEND: three packets of 4096
	firstValue  = 1000     // of the word
)

// Which connection is for what: one that ran into an error is not used again.
const (
	mainConn = iota
	victimConn
	streamConn
	numConns
)

// request is a question to the peer; Op says which fields it has.
type request struct {
	Op   string `json:"op"`
	Off  int    `json:"off,omitempty"`
	Len  int    `json:"len,omitempty"`
	Seed uint64 `json:"seed,omitempty"`
}

// reply is the answer. An Error is a failure of the demonstration.
type reply struct {
	Error string `json:"error,omitempty"`
	PID   int    `json:"pid,omitempty"`
	Addr  string `json:"addr,omitempty"` // address and port that it listens at
	VAddr uint64 `json:"vaddr,omitempty"`
	RKey  uint32 `json:"rkey,omitempty"`
	Word  uint64 `json:"word,omitempty"`
	Event string `json:"event,omitempty"`
}

// peerLink is the parent's end of the pipes.
type peerLink struct {
	enc *json.Encoder
	dec *json.Decoder
}

func newPeerLink(r io.Reader, w io.Writer) *peerLink {
	return &peerLink{json.NewEncoder(w), json.NewDecoder(r)}
}

// ask sends a request and waits for its reply.
func (p *peerLink) ask(q request) (reply, error) {
	var r reply
	if err := p.enc.Encode(q); err != nil {
		return r, fmt.Errorf("ask the peer process (%s): %w", q.Op, err)
	}
	if err := p.dec.Decode(&r); err != nil {
		return r, fmt.Errorf("the peer process gave no answer (%s): %w", q.Op, err)
	}
	if r.Error != "" {
		return r, errors.New("the peer says: " + r.Error)
	}
	return r, nil
}

// pattern fills b with the bytes that belong to seed. Both sides compute them,
// so that every byte can be checked without sending it twice.
func pattern(b []byte, seed uint64) {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	_, _ = rand.NewChaCha8(key).Read(b) // cannot fail
}

// differs returns the first place where b is not the pattern of seed, or -1.
func differs(b []byte, seed uint64) int {
	want := make([]byte, len(b))
	pattern(want, seed)
	for i := range b {
		if b[i] != want[i] {
			return i
		}
	}
	return -1
}
