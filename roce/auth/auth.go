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
	// Limit is how long one side waits for the other, unless its context ends first.
	Limit = 10 * time.Second

	nonceBytes = 32
	macBytes   = sha256.Size
	version    = 1
)

// magic begins message 1.
var magic = [4]byte{'g', 'R', 'A', 0x1D}

// header is the length of message 1 before the ID.
const header = len(magic) + 1 + nonceBytes

// welcome is message 4.
const welcome = 1

// Key is a named secret; the server finds it by its name. A server may have many: one for each
// client, or an old and a new one during a change.
type Key struct {
	ID     string
	Secret []byte
}

// ErrDenied says that the peer has not proved that it knows the secret, or does not accept this
// side's proof. An *[Error] tells which of the two, and why, as far as known.
var ErrDenied = errors.New("authentication failed")

// Error is an authentication that failed because of the peer's messages. It matches [ErrDenied].
type Error struct {
	ID  string // the key
	Why string
}

func (e *Error) Error() string {
	return fmt.Sprintf("auth: key %q: %v: %s", e.ID, ErrDenied, e.Why)
}

// Is makes every Error match ErrDenied.
func (e *Error) Is(target error) bool { return target == ErrDenied }

// check returns an error for an invalid key.
func (k *Key) check() error {
	switch {
	case len(k.Secret) < MinSecret:
		return &roce.ArgError{Op: "authenticate", Arg: "Secret",
			Why: fmt.Sprintf("%d bytes; at least %d", len(k.Secret), MinSecret)}
	case len(k.ID) > MaxID:
		return &roce.ArgError{Op: "authenticate", Arg: "ID", Why: fmt.Sprintf("%d bytes; at most %d", len(k.ID), MaxID)}
	}
	return nil
}

// transcript is what both sides have seen.
type transcript struct {
	hello       []byte // message 1
	serverNonce []byte
	binding     []byte // identifies the connection
}

// mac returns the MAC of the transcript for a role.
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

// bindingOf identifies a connection in the same way on both sides.
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
		ip := e.addr.Addr().As16() // without the zone, which is local to the host
		out = append(out, ip[:]...)
		out = binary.BigEndian.AppendUint16(out, e.addr.Port())
		out = binary.BigEndian.AppendUint32(out, e.qpn)
	}
	return out, nil
}

// random fills b from the random source of the connection's device: verbs.Config.Rand, which is
// crypto/rand.Reader by default, and depends on the seed on a simulated network.
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

// receive returns the next message, of at most most bytes.
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

// Client proves to the peer, which calls Server, that this side knows the secret, and verifies that
// the peer does. A nil error means that both succeeded. After an error the connection is unusable:
// close it. An error that does not match [ErrDenied] is that of the connection or the context.
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

// denied interprets the end of the connection during authentication.
func denied(id string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, roce.ErrPeerClosed) {
		return errors.Join(&Error{id, "the peer has closed the connection"}, err)
	}
	return err
}

// Server proves to the peer, which calls Client, that this side knows the secret of the key that
// the peer names, and verifies that the peer does. It returns the key's ID, which identifies the
// peer. lookup returns the secret of an ID, or nil if there is none. After an error close the
// connection.
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
		// The peer gets the usual answer, so that it does not learn which IDs exist.
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
// with the ID of its key. If that fails the connection is closed, and the handler returns the
// error.
func Handler(lookup func(id string) []byte,
	handle func(ctx context.Context, c *roce.Conn, id string) error) func(context.Context, *roce.Conn) error {
	return func(ctx context.Context, c *roce.Conn) error {
		id, err := Server(ctx, c, lookup)
		if err != nil {
			return err
		}
		return handle(ctx, c, id)
	}
}
