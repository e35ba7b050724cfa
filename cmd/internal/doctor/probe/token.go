package probe

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"time"
)

// tokens shows that an address receives what is sent there, without remembering it.
type tokens struct{ key [32]byte }

func newTokens() *tokens {
	t := &tokens{}
	_, _ = rand.Read(t.key[:]) // never fails
	return t
}

// of returns the token of an address at a time.
func (t *tokens) of(a netip.Addr, now time.Time) (out [16]byte) {
	return t.epoch(a, now.Unix()/int64(tokenTime/time.Second))
}

func (t *tokens) epoch(a netip.Addr, n int64) (out [16]byte) {
	h := hmac.New(sha256.New, t.key[:])
	b := a.As16()
	h.Write(binary.BigEndian.AppendUint64(b[:], uint64(n)))
	copy(out[:], h.Sum(nil))
	return out
}

// good reports whether a token is that of the address.
func (t *tokens) good(a netip.Addr, token [16]byte, now time.Time) bool {
	n := now.Unix() / int64(tokenTime/time.Second)
	for _, e := range []int64{n, n - 1} {
		want := t.epoch(a, e)
		if hmac.Equal(want[:], token[:]) {
			return true
		}
	}
	return false
}
