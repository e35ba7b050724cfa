package rsocket

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"runtime"
	"syscall"
	"testing"

	"github.com/goroce/goroce/roce"
	"github.com/stretchr/testify/require"
)

// waker is a program that waits for Notify.
type waker struct {
	c    *Conn
	woke chan struct{}
}

func newWaker(c *Conn) *waker {
	w := &waker{c, make(chan struct{}, 1)}
	c.Notify(func() {
		select {
		case w.woke <- struct{}{}:
		default:
		}
	})
	return w
}

// until waits until something is so.
func (w *waker) until(t testing.TB, so func(Readiness) bool) {
	ctx := testContext(t)
	for !so(w.c.ReadyOrNotify()) {
		select {
		case <-w.woke:
		case <-ctx.Done():
			require.Fail(t, "not woken")
		}
	}
}

func readable(r Readiness) bool { return r.Readable }
func writable(r Readiness) bool { return r.Writable }

// Two programs that never wait in a call move more than all buffers hold, to the end.
func TestTry(t *testing.T) {
	for name, n := range map[string]*network{"udp": udpNetwork(t), "2 shards": shardedNetwork(t)} {
		t.Run(name, func(t *testing.T) {
			c, s := n.pair(t, Config{SendBuffer: 8192, RecvBuffer: 8192})
			cw, sw := newWaker(c), newWaker(s)
			_, err := s.TryRead(make([]byte, 1))
			require.Equal(t, syscall.EAGAIN, err)
			_, err = s.TryPeek(make([]byte, 1))
			require.Equal(t, syscall.EAGAIN, err)
			require.True(t, c.Ready().Writable)

			data := bytes.Repeat([]byte("nobody waits "), 100_000)
			sent := make(chan error, 1)
			go func() {
				for p := data; len(p) > 0; {
					k, err := c.TryWrite(p)
					if p = p[k:]; err == syscall.EAGAIN {
						cw.until(t, writable)
					} else if err != nil {
						sent <- err
						return
					}
				}
				var err error
				for err = syscall.EAGAIN; err == syscall.EAGAIN; err = c.TryCloseWrite() {
					cw.until(t, func(r Readiness) bool { return true })
				}
				sent <- err
			}()
			var got []byte
			b := make([]byte, 3000)
			for err == nil || err == syscall.EAGAIN {
				sw.until(t, readable)
				seen := make([]byte, 5000)
				k, _ := s.TryPeek(seen)
				var m int
				m, err = s.TryRead(b)
				require.True(t, bytes.HasPrefix(b[:m], seen[:min(k, m)]))
				got = append(got, b[:m]...)
			}
			require.Equal(t, io.EOF, err)
			require.True(t, bytes.Equal(data, got))
			require.NoError(t, <-sent)
			require.NoError(t, c.TryCloseWrite(), "again")
			_, err = c.TryWrite([]byte{1})
			require.ErrorIs(t, err, syscall.EPIPE)

			// The other direction goes on until both have said goodbye.
			_, err = s.TryWrite([]byte("bye"))
			require.NoError(t, err)
			cw.until(t, readable)
			k, err := c.TryRead(b)
			require.NoError(t, err)
			require.Equal(t, "bye", string(b[:k]))
			for err = s.TryDisconnect(); err == syscall.EAGAIN; err = s.TryDisconnect() {
				sw.until(t, func(r Readiness) bool { return r.Drained })
			}
			require.NoError(t, err)
			cw.until(t, func(r Readiness) bool { return r.Over })
			require.NoError(t, c.Ready().Err)
			require.NoError(t, s.Close())
			require.NoError(t, s.TryDisconnect())
			_, err = s.TryRead(b)
			require.ErrorIs(t, err, net.ErrClosed)
			_, err = s.TryPeek(b)
			require.ErrorIs(t, err, net.ErrClosed)
			require.ErrorIs(t, s.TryCloseWrite(), net.ErrClosed)
		})
	}
}

// Mappings without waiting.
func TestTryMap(t *testing.T) {
	n := udpNetwork(t)
	c, s := n.pair(t, Config{IOMaps: 4})
	cw := newWaker(c)
	mem := make([]byte, 100)
	m, err := s.TryMap(mem, 50)
	require.NoError(t, err)
	_, err = s.TryWrite([]byte("mapped"))
	require.NoError(t, err)
	cw.until(t, readable)
	k, err := c.TryWriteAt([]byte("direct"), 60)
	require.NoError(t, err)
	require.Equal(t, 6, k)
	_, err = c.TryWriteAt([]byte("x"), 1)
	require.ErrorIs(t, err, ErrNotMapped)
	_, err = c.TryWrite([]byte("done"))
	require.NoError(t, err)
	newWaker(s).until(t, readable)
	m.Sync()
	require.Equal(t, "direct", string(mem[10:16]))
	require.NoError(t, m.Close())
}

// The properties of a listener's connections can be changed while it listens, as a program on
// librdmacm does with RDMA_IOMAPSIZE.
func TestListenerSetConfig(t *testing.T) {
	n := udpNetwork(t)
	l, err := Listen(n.b, netip.AddrPortFrom(n.b.Addrs()[0], 0))
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	require.ErrorIs(t, l.SetConfig(Config{IOMaps: -1}), roce.ErrInvalidAttr)
	require.NoError(t, l.SetConfig(Config{IOMaps: 1}))
	c, err := (&Dialer{Device: n.a}).Dial(testContext(t), l.addr.AddrPort)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	m, err := c.Map(make([]byte, 10), 0)
	require.NoError(t, err)
	require.NoError(t, m.Close())
}

// Calls that do not wait do not wait for those that do, either.
func TestTryBesideRead(t *testing.T) {
	c, s := udpNetwork(t).pair(t, Config{})
	got := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(s, make([]byte, 1))
		got <- err
	}()
	for held := false; !held; { // until Read has the direction
		if held = !s.rmu.TryLock(); !held {
			s.rmu.Unlock()
			runtime.Gosched()
		}
	}
	_, err := s.TryRead(make([]byte, 1))
	require.Equal(t, syscall.EAGAIN, err)
	_, err = s.TryPeek(make([]byte, 1))
	require.Equal(t, syscall.EAGAIN, err)
	_, err = c.Write([]byte{1})
	require.NoError(t, err)
	require.NoError(t, <-got)
}

// The zero connection.
func TestTryZero(t *testing.T) {
	var c Conn
	c.Notify(func() {})
	_, err := c.TryRead(nil)
	require.ErrorIs(t, err, syscall.EINVAL)
	_, err = c.TryPeek(nil)
	require.ErrorIs(t, err, syscall.EINVAL)
	_, err = c.TryWrite(nil)
	require.ErrorIs(t, err, syscall.EINVAL)
	_, err = c.TryMap(nil, 0)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorIs(t, c.TryCloseWrite(), syscall.EINVAL)
	require.ErrorIs(t, c.TryDisconnect(), syscall.EINVAL)
	require.True(t, c.Ready().Over)
}
