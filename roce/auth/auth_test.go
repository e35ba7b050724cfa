package auth

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

var (
	secret = []byte("sixteen bytes or more")
	other  = []byte("another secret, as long")
)

func lookup(id string) []byte {
	if id == "known" {
		return secret
	}
	return nil
}

// connect returns the two ends of a connection.
func connect(t *testing.T) (client, server *roce.Conn) { return connectWith(t, verbs.Config{}) }

// connectWith is connect with a client's device of its own kind.
func connectWith(t *testing.T, cfg verbs.Config) (client, server *roce.Conn) {
	ctx := rocetest.Context(t)
	a, b := rocetest.OpenDevice(t, cfg), rocetest.OpenDevice(t, verbs.Config{})
	lc := roce.ListenConfig{ConnConfig: roce.ConnConfig{Device: b}}
	l, err := lc.Listen(ctx, b.Addrs()[0].String()+":0")
	require.NoError(t, err)
	defer l.Close()
	accepted := make(chan *roce.Conn, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	d := roce.Dialer{ConnConfig: roce.ConnConfig{Device: a}}
	client, err = d.DialAddr(ctx, l.Addr())
	require.NoError(t, err)
	server = <-accepted
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// outcome is how one side fared.
type outcome struct {
	id  string
	err error
}

// serve runs Server, and closes the connection if it fails, as one should.
func serve(ctx context.Context, c *roce.Conn) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		id, err := Server(ctx, c, lookup)
		if err != nil {
			c.Close()
		}
		done <- outcome{id, err}
	}()
	return done
}

func TestBothKnow(t *testing.T) {
	ctx := rocetest.Context(t)
	c, s := connect(t)
	done := serve(ctx, s)
	require.NoError(t, Client(ctx, c, Key{"known", secret}))
	o := <-done
	require.NoError(t, o.err)
	require.Equal(t, "known", o.id)
	// The connection is as it would be without.
	require.NoError(t, s.Send(ctx, []byte("hello")))
	b := make([]byte, 8)
	n, err := c.Recv(ctx, b)
	require.NoError(t, err)
	require.Equal(t, "hello", string(b[:n]))
}

// Neither side lets the other in without the secret, and an ID that there is not looks the same as
// a wrong secret.
func TestWrongSecret(t *testing.T) {
	ctx := rocetest.Context(t)
	var said []string
	for _, key := range []Key{{"known", other}, {"nobody", secret}, {"", secret}} {
		c, s := connect(t)
		done := serve(ctx, s)
		err := Client(ctx, c, key)
		require.ErrorIs(t, err, ErrDenied)
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, key.ID, e.ID)
		said = append(said, e.Why)
		c.Close()
		require.ErrorIs(t, (<-done).err, ErrDenied)
	}
	require.Equal(t, said[0], said[1])
	require.Equal(t, said[0], said[2])
}

func TestArguments(t *testing.T) {
	ctx := rocetest.Context(t)
	c, s := connect(t)
	require.ErrorIs(t, Client(ctx, c, Key{"x", make([]byte, MinSecret-1)}), roce.ErrInvalidAttr)
	require.ErrorIs(t, Client(ctx, c, Key{string(make([]byte, MaxID+1)), secret}), roce.ErrInvalidAttr)
	require.NoError(t, c.Send(ctx, hello([nonceBytes]byte{1}, "short")))
	_, err := Server(ctx, s, func(string) []byte { return []byte("short") })
	require.ErrorIs(t, err, roce.ErrInvalidAttr, "nil is none; a secret that is too short is a mistake")
}

// recv returns a message of the peer.
func recv(t *testing.T, c *roce.Conn) []byte {
	b := make([]byte, 512)
	n, err := c.Recv(rocetest.Context(t), b)
	require.NoError(t, err)
	return b[:n]
}

// What was recorded is of no use in another connection: the server has other random bytes.
func TestReplay(t *testing.T) {
	ctx := rocetest.Context(t)
	c, s := connect(t)
	done := serve(ctx, s)
	key := Key{"known", secret}
	first := hello([nonceBytes]byte{1}, key.ID)
	require.NoError(t, c.Send(ctx, first))
	answer := recv(t, c)
	tr := transcript{hello: first, serverNonce: answer[:nonceBytes]}
	var err error
	tr.binding, err = bindingOf(c, true)
	require.NoError(t, err)
	proof := tr.mac(secret, "client")
	require.NoError(t, c.Send(ctx, proof))
	require.NoError(t, (<-done).err, "the first time it is good")

	c, s = connect(t)
	done = serve(ctx, s)
	require.NoError(t, c.Send(ctx, first))
	again := recv(t, c)
	require.NotEqual(t, answer[:nonceBytes], again[:nonceBytes])
	require.NoError(t, c.Send(ctx, proof))
	require.ErrorIs(t, (<-done).err, ErrDenied)

	// The other way round: a server that says what another one said before.
	c, s = connect(t)
	failed := make(chan error, 1)
	go func() { failed <- Client(ctx, c, key) }()
	recv(t, s)
	require.NoError(t, s.Send(ctx, answer))
	require.ErrorIs(t, <-failed, ErrDenied)
}

// What the server says is no proof of the client's, in the same connection or in another one.
func TestReflection(t *testing.T) {
	ctx := rocetest.Context(t)
	c, s := connect(t)
	done := serve(ctx, s)
	require.NoError(t, c.Send(ctx, hello([nonceBytes]byte{1}, "known")))
	answer := recv(t, c)
	require.NoError(t, c.Send(ctx, answer[nonceBytes:]))
	require.ErrorIs(t, (<-done).err, ErrDenied)

	// A client that is told its own message.
	c, s = connect(t)
	failed := make(chan error, 1)
	go func() { failed <- Client(ctx, c, Key{"known", secret}) }()
	first := recv(t, s)
	require.NoError(t, s.Send(ctx, append(first, make([]byte, nonceBytes+macBytes)...)[:nonceBytes+macBytes]))
	require.ErrorIs(t, <-failed, ErrDenied)
}

// Somebody between the two who passes every message on is found: the connections are others.
func TestRelay(t *testing.T) {
	ctx := rocetest.Context(t)
	c, near := connect(t) // the client, and the attacker's end
	far, s := connect(t)  // the attacker's other end, and the server
	done := serve(ctx, s)
	failed := make(chan error, 1)
	go func() { failed <- Client(ctx, c, Key{"known", secret}) }()
	require.NoError(t, far.Send(ctx, recv(t, near)))
	require.NoError(t, near.Send(ctx, recv(t, far)))
	require.ErrorIs(t, <-failed, ErrDenied, "the client finds it")
	// And if the client did not look, the server would.
	tr := transcript{}
	var err error
	tr.binding, err = bindingOf(c, true)
	require.NoError(t, err)
	require.NoError(t, far.Send(ctx, tr.mac(secret, "client")))
	require.ErrorIs(t, (<-done).err, ErrDenied)
}

// Every truncation, and every changed byte, of each message is found.
func TestBadMessages(t *testing.T) {
	good := hello([nonceBytes]byte{1}, "known")
	for i := range header {
		_, err := idOf(good[:i])
		require.ErrorIs(t, err, ErrDenied)
	}
	for i := range 5 {
		b := bytes.Clone(good)
		b[i] ^= 1
		_, err := idOf(b)
		require.ErrorIs(t, err, ErrDenied)
	}
	_, err := idOf(append(good, make([]byte, MaxID)...))
	require.ErrorIs(t, err, ErrDenied)
	tr := transcript{hello: good, serverNonce: make([]byte, nonceBytes), binding: []byte("b")}
	mac := tr.mac(secret, "client")
	for _, other := range []transcript{
		{good[:len(good)-1], tr.serverNonce, tr.binding},
		{good, append([]byte{1}, tr.serverNonce[1:]...), tr.binding},
		{good, tr.serverNonce, []byte("c")},
		{append(bytes.Clone(good), 0), tr.serverNonce[1:], tr.binding}, // the same bytes in all
	} {
		require.NotEqual(t, mac, other.mac(secret, "client"))
	}
	require.NotEqual(t, mac, tr.mac(secret, "server"))
}

// A peer that speaks something else, says nothing or hangs up is no reason to wait for ever.
func TestOtherPeers(t *testing.T) {
	ctx := rocetest.Context(t)
	c, s := connect(t)
	done := serve(ctx, s)
	require.NoError(t, c.Send(ctx, []byte("GET / HTTP/1.1")))
	require.ErrorIs(t, (<-done).err, ErrDenied)

	c, s = connect(t)
	done = serve(ctx, s)
	require.NoError(t, c.Send(ctx, make([]byte, header+MaxID+1)))
	require.ErrorIs(t, (<-done).err, ErrDenied)

	c, s = connect(t)
	done = serve(ctx, s)
	require.NoError(t, c.Close())
	require.ErrorIs(t, (<-done).err, ErrDenied)

	c, _ = connect(t)
	ended, cancel := context.WithCancel(ctx)
	failed := make(chan error, 1)
	go func() { failed <- Client(ended, c, Key{"known", secret}) }()
	cancel()
	err := <-failed
	require.True(t, errors.Is(err, context.Canceled), "%v", err)
	require.NotErrorIs(t, err, ErrDenied)
}

// The server's last message is one byte, and no longer.
func TestLongWelcome(t *testing.T) {
	ctx := rocetest.Context(t)
	c, s := connect(t)
	failed := make(chan error, 1)
	go func() { failed <- Client(ctx, c, Key{"known", secret}) }()
	tr := transcript{hello: recv(t, s), serverNonce: make([]byte, nonceBytes)}
	var err error
	tr.binding, err = bindingOf(s, false)
	require.NoError(t, err)
	require.NoError(t, s.Send(ctx, append(tr.serverNonce[:nonceBytes:nonceBytes], tr.mac(secret, "server")...)))
	require.Equal(t, tr.mac(secret, "client"), recv(t, s))
	require.NoError(t, s.Send(ctx, []byte{welcome, 0}))
	var e *Error
	require.ErrorAs(t, <-failed, &e)
	require.Equal(t, "a message of 2 bytes", e.Why)
}

func FuzzHello(f *testing.F) {
	f.Add(hello([nonceBytes]byte{1}, "known"))
	f.Fuzz(func(t *testing.T, b []byte) {
		id, err := idOf(b)
		if err == nil && !bytes.Equal(b[header:], []byte(id)) {
			t.Errorf("%x gave %q", b, id)
		}
	})
}

// Of a device that is closed there are no random numbers: an authentication fails, and does not go
// on with others.
func TestClosedDevice(t *testing.T) {
	c, s := connect(t)
	require.NoError(t, random(c, make([]byte, 8)))
	require.NoError(t, c.Device().Close())
	b := make([]byte, 8)
	require.Error(t, random(c, b))
	require.Equal(t, make([]byte, 8), b)
	ctx := rocetest.Context(t)
	require.Error(t, Client(ctx, c, Key{"known", secret}))
	require.NoError(t, s.Device().Close())
	_, err := Server(ctx, s, lookup)
	require.Error(t, err)
}

// exhausted is a source of random bytes that ends when a test says so.
type exhausted struct{ atomic.Bool }

var errExhausted = errors.New("no more random bytes")

func (e *exhausted) Read(b []byte) (int, error) {
	if e.Load() {
		return 0, errExhausted
	}
	return rand.Read(b)
}

// A client that has no random bytes sends nothing, rather than bytes that anybody knows: here it
// would find that its context has ended.
func TestNoRandom(t *testing.T) {
	var r exhausted
	c, _ := connectWith(t, verbs.Config{Rand: &r})
	r.Store(true)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, Client(ended, c, Key{"known", secret}), errExhausted)
}
