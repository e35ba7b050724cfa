package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/access"
)

const (
	// MinSecret is the length of the shortest secret, in bytes.
	MinSecret = 16
	// MaxID is the length of the longest ID, in bytes.
	MaxID = 255
	// Limit is how long one side waits for the other, if its context does not end before.
	Limit = 10 * time.Second

	nonceBytes = 32
	macBytes   = sha256.Size
	version    = 1
)

// magic begins message 1.
var magic = [4]byte{'g', 'R', 'A', 0x1D}

// header is what of message 1 comes before the ID.
const header = len(magic) + 1 + nonceBytes

// welcome is message 4.
const welcome = 1

// Key is a secret with a name, by which the server finds it. One server may have many: one for each
// client, or an old and a new one while they are changed.
type Key struct {
	ID     string
	Secret []byte
}

// ErrDenied is matched when the peer has not proved that it knows the secret, or does not accept
// that this side does. Which of the two, and why, an *[Error] says as far as it is known.
var ErrDenied = errors.New("authentication failed")

// Error is an authentication that failed because of what the peer has sent. It matches [ErrDenied].
type Error struct {
	ID  string // the key
	Why string
}

func (e *Error) Error() string {
	return fmt.Sprintf("auth: key %q: %v: %s", e.ID, ErrDenied, e.Why)
}

// Is makes every Error match ErrDenied.
func (e *Error) Is(target error) bool { return target == ErrDenied }

// check returns an error for a key that cannot be.
func (k *Key) check() error {
	switch {
	case len(k.Secret) < MinSecret:
		return &roce.ArgError{Op: "authenticate", Arg: "Secret", Why: fmt.Sprintf("%d bytes; at least %d", len(k.Secret), MinSecret)}
	case len(k.ID) > MaxID:
		return &roce.ArgError{Op: "authenticate", Arg: "ID", Why: fmt.Sprintf("%d bytes; at most %d", len(k.ID), MaxID)}
	}
	return nil
}

// transcript is what both sides have seen.
type transcript struct {
	hello       []byte // message 1
	serverNonce []byte
	binding     []byte // of the connection
}

// mac is what a role says of it.
func (t *transcript) mac(secret []byte, role string) []byte {
	h := hmac.New(sha256.New, secret)
	for _, part := range [][]byte{[]byte("goroce auth 1 " + role), t.hello, t.serverNonce, t.binding} {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(part)))
		h.Write(n[:])
		h.Write(part)
	}
	return h.Sum(nil)
}

// bindingOf names a connection, as both of its ends see it.
func bindingOf(c *roce.Conn, isClient bool) ([]byte, error) {
	attr, _, err := c.QP().Query()
	if err != nil {
		return nil, err
	}
	type end struct {
		addr netip.AddrPort
		qpn  uint32
	}
	client, server := end{c.LocalAddr(), uint32(c.QP().Num())}, end{c.RemoteAddr(), uint32(attr.DestQPN)}
	if !isClient {
		client, server = server, client
	}
	var out []byte
	for _, e := range []end{client, server} {
		ip := e.addr.Addr().As16() // without a zone, which is the host's own
		out = append(out, ip[:]...)
		out = binary.BigEndian.AppendUint16(out, e.addr.Port())
		out = binary.BigEndian.AppendUint32(out, e.qpn)
	}
	return out, nil
}

// random fills b from where the device of the connection has its random numbers: verbs.Config.Rand,
// which is crypto/rand.Reader unless somebody chose another, and on a simulated network comes from
// the seed.
func random(c *roce.Conn, b []byte) error {
	s := access.Shard(c.Device())
	if s == nil {
		return roce.ErrClosed
	}
	s.Turn(nil) // so that a simulation repeats which connection draws what
	if err := s.Lock(); err != nil {
		return err
	}
	defer s.Unlock()
	_, err := io.ReadFull(s.Rand(), b)
	return err
}

// hello makes message 1.
func hello(nonce [nonceBytes]byte, id string) []byte {
	b := append(magic[:len(magic):len(magic)], version)
	b = append(b, nonce[:]...)
	return append(b, id...)
}

// idOf returns the ID in message 1.
func idOf(b []byte) (string, error) {
	switch {
	case len(b) < header || len(b) > header+MaxID || [4]byte(b[:4]) != magic:
		return "", &Error{Why: "the peer does not authenticate"}
	case b[4] != version:
		return "", &Error{Why: fmt.Sprintf("version %d, and this side speaks %d", b[4], version)}
	}
	return string(b[header:]), nil
}

// receive returns the next message, which has at most so many bytes.
func receive(ctx context.Context, c *roce.Conn, most int) ([]byte, error) {
	m, err := c.RecvMsg(ctx)
	if err != nil {
		return nil, err
	}
	defer m.Release()
	if m.Written || m.Len() > most {
		return nil, &Error{Why: fmt.Sprintf("a message of %d bytes", m.Len())}
	}
	return append([]byte{}, m.Bytes()...), nil
}

// Client proves to the peer, which calls Server, that this side knows the secret, and that the peer
// does. When it has returned nil, both have. After an error the connection is of no use: close it.
// An error that does not match [ErrDenied] is that of the connection or the context.
func Client(ctx context.Context, c *roce.Conn, key Key) error {
	if err := key.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	var t transcript
	var err error
	if t.binding, err = bindingOf(c, true); err != nil {
		return err
	}
	var nonce [nonceBytes]byte
	if err := random(c, nonce[:]); err != nil {
		return err
	}
	t.hello = hello(nonce, key.ID)
	if err := c.Send(ctx, t.hello); err != nil {
		return err
	}
	answer, err := receive(ctx, c, nonceBytes+macBytes)
	if err != nil {
		return denied(key.ID, err)
	}
	if len(answer) != nonceBytes+macBytes {
		return &Error{key.ID, "the peer does not authenticate"}
	}
	t.serverNonce = answer[:nonceBytes]
	if !hmac.Equal(answer[nonceBytes:], t.mac(key.Secret, "server")) {
		return &Error{key.ID, "the peer has another secret, or is not at the other end of the connection"}
	}
	if err := c.Send(ctx, t.mac(key.Secret, "client")); err != nil {
		return denied(key.ID, err)
	}
	last, err := receive(ctx, c, 1)
	if err != nil {
		return denied(key.ID, err)
	}
	if len(last) != 1 || last[0] != welcome {
		return &Error{key.ID, "the peer does not let this side in"}
	}
	return nil
}

// denied is what a peer means that ends the connection while it authenticates.
func denied(id string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, roce.ErrPeerClosed) {
		return errors.Join(&Error{id, "the peer has closed the connection"}, err)
	}
	return err
}

// Server proves to the peer, which calls Client, that this side knows the secret of the key that
// the peer names, and that the peer does. It returns the key's ID, which is who the peer is. lookup
// returns the secret of an ID, or nil if there is none. After an error close the connection.
func Server(ctx context.Context, c *roce.Conn, lookup func(id string) []byte) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	var t transcript
	if t.binding, err = bindingOf(c, false); err != nil {
		return "", err
	}
	if t.hello, err = receive(ctx, c, header+MaxID); err != nil {
		return "", denied("", err)
	}
	if id, err = idOf(t.hello); err != nil {
		return "", err
	}
	secret := lookup(id)
	known := secret != nil
	if !known {
		// The peer is answered like any other, so that it does not learn which IDs there are.
		secret = make([]byte, MinSecret)
		if err := random(c, secret); err != nil {
			return "", err
		}
	}
	if err := (&Key{id, secret}).check(); err != nil {
		return "", err
	}
	t.serverNonce = make([]byte, nonceBytes)
	if err := random(c, t.serverNonce); err != nil {
		return "", err
	}
	if err := c.Send(ctx, append(t.serverNonce[:nonceBytes:nonceBytes], t.mac(secret, "server")...)); err != nil {
		return "", denied(id, err)
	}
	proof, err := receive(ctx, c, macBytes)
	if err != nil {
		return "", denied(id, err)
	}
	if !hmac.Equal(proof, t.mac(secret, "client")) || !known {
		return "", &Error{id, "the peer has another secret, or is not at the other end of the connection"}
	}
	if err := c.Send(ctx, []byte{welcome}); err != nil {
		return "", denied(id, err)
	}
	return id, nil
}

// Handler returns a handler for [roce.Server] that authenticates the peer, and then calls handle
// with the ID of its key. A peer that fails is closed, and its error is the handler's.
func Handler(lookup func(id string) []byte, handle func(ctx context.Context, c *roce.Conn, id string) error) func(context.Context, *roce.Conn) error {
	return func(ctx context.Context, c *roce.Conn) error {
		id, err := Server(ctx, c, lookup)
		if err != nil {
			return err
		}
		return handle(ctx, c, id)
	}
}
