package rsocket

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"runtime"
	"syscall"
	"testing"

	"github.com/goroce/goroce/internal/core"
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
	core.Open(c).Notify(func() {
		select {
		case w.woke <- struct{}{}:
		default:
		}
	})
	return w
}

// until waits until something is so.
func (w *waker) until(t testing.TB, so func(core.Readiness) bool) {
	ctx := testContext(t)
	for !so(core.Open(w.c).ReadyOrNotify(nil)) {
		select {
		case <-w.woke:
		case <-ctx.Done():
			require.Fail(t, "not woken")
		}
	}
}

func readable(r core.Readiness) bool { return r.Readable }
func writable(r core.Readiness) bool { return r.Writable }

// The send buffer of a connection that is there takes no more than it may hold, and all arrives.
func TestHoldAtMost(t *testing.T) {
	for _, hold := range []int{1, 8192, 1 << 20} {
		c, s := udpNetwork(t).pair(t, Config{})
		core.Open(c).HoldAtMost(hold)
		cw := newWaker(c)
		data := randomBytes(1, 3<<20)
		n, full := 0, false
		for !full {
			cw.until(t, func(r core.Readiness) bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				full = !r.Writable && c.s.snd.stages() // not only until the peer's adapter has more
				return full || r.Writable
			})
			k, err := core.Open(c).TryWrite(data[n:])
			require.True(t, err == nil || err == syscall.EAGAIN)
			n += k
		}
		most := max(hold, minSendBuffer) + defaultBuffer
		require.LessOrEqual(t, n, most)
		require.Greater(t, n, most/2)
		sent := make(chan error, 1)
		go func() {
			var err error
			for n < len(data) && (err == nil || err == syscall.EAGAIN) {
				cw.until(t, writable)
				var k int
				k, err = core.Open(c).TryWrite(data[n:])
				n += k
			}
			sent <- err
		}()
		got := make([]byte, len(data))
		_, err := io.ReadFull(s, got)
		require.NoError(t, err)
		require.NoError(t, <-sent)
		require.True(t, bytes.Equal(data, got))
	}
}

// Two programs that never wait in a call move more than all buffers hold, to the end.
func TestTry(t *testing.T) {
	for name, n := range map[string]*network{"udp": udpNetwork(t), "2 shards": shardedNetwork(t)} {
		t.Run(name, func(t *testing.T) {
			c, s := n.pair(t, Config{SendBuffer: 8192, RecvBuffer: 8192})
			cw, sw := newWaker(c), newWaker(s)
			_, err := core.Open(s).TryRead(make([]byte, 1))
			require.Equal(t, syscall.EAGAIN, err)
			_, err = core.Open(s).TryPeek(make([]byte, 1))
			require.Equal(t, syscall.EAGAIN, err)
			require.True(t, core.Open(c).Ready().Writable)

			data := bytes.Repeat([]byte("nobody waits "), 100_000)
			sent := make(chan error, 1)
			go func() {
				for p := data; len(p) > 0; {
					k, err := core.Open(c).TryWrite(p)
					if p = p[k:]; err == syscall.EAGAIN {
						cw.until(t, writable)
					} else if err != nil {
						sent <- err
						return
					}
				}
				var err error
				for err = syscall.EAGAIN; err == syscall.EAGAIN; err = core.Open(c).TryCloseWrite() {
					cw.until(t, func(r core.Readiness) bool { return true })
				}
				sent <- err
			}()
			var got []byte
			b := make([]byte, 3000)
			for err == nil || err == syscall.EAGAIN {
				sw.until(t, readable)
				seen := make([]byte, 5000)
				k, _ := core.Open(s).TryPeek(seen)
				var m int
				m, err = core.Open(s).TryRead(b)
				require.True(t, bytes.HasPrefix(b[:m], seen[:min(k, m)]))
				got = append(got, b[:m]...)
			}
			require.Equal(t, io.EOF, err)
			require.True(t, bytes.Equal(data, got))
			require.NoError(t, <-sent)
			require.NoError(t, core.Open(c).TryCloseWrite(), "again")
			_, err = core.Open(c).TryWrite([]byte{1})
			require.ErrorIs(t, err, syscall.EPIPE)

			// The other direction goes on until both have said goodbye.
			_, err = core.Open(s).TryWrite([]byte("bye"))
			require.NoError(t, err)
			cw.until(t, readable)
			k, err := core.Open(c).TryRead(b)
			require.NoError(t, err)
			require.Equal(t, "bye", string(b[:k]))
			for err = core.Open(s).TryDisconnect(); err == syscall.EAGAIN; err = core.Open(s).TryDisconnect() {
				sw.until(t, func(r core.Readiness) bool { return r.Drained })
			}
			require.NoError(t, err)
			cw.until(t, func(r core.Readiness) bool { return r.Over })
			require.NoError(t, core.Open(c).Ready().Err)
			require.NoError(t, s.Close())
			require.NoError(t, core.Open(s).TryDisconnect())
			_, err = core.Open(s).TryRead(b)
			require.ErrorIs(t, err, net.ErrClosed)
			_, err = core.Open(s).TryPeek(b)
			require.ErrorIs(t, err, net.ErrClosed)
			require.ErrorIs(t, core.Open(s).TryCloseWrite(), net.ErrClosed)
		})
	}
}

// Mappings without waiting.
func TestTryMap(t *testing.T) {
	n := udpNetwork(t)
	c, s := n.pair(t, Config{IOMaps: 4})
	cw := newWaker(c)
	mem := make([]byte, 100)
	m, err := core.Open(s).TryMap(mem, 50)
	require.NoError(t, err)
	_, err = core.Open(s).TryWrite([]byte("mapped"))
	require.NoError(t, err)
	cw.until(t, readable)
	k, err := core.Open(c).TryWriteAt([]byte("direct"), 60)
	require.NoError(t, err)
	require.Equal(t, 6, k)
	_, err = core.Open(c).TryWriteAt([]byte("x"), 1)
	require.ErrorIs(t, err, ErrNotMapped)
	_, err = core.Open(c).TryWrite([]byte("done"))
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
	l, err := (&ListenConfig{Device: n.b}).ListenAddr(netip.AddrPortFrom(n.b.Addrs()[0], 0))
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	require.ErrorIs(t, core.Open(l).SetConfig(Config{IOMaps: -1}), roce.ErrInvalidAttr)
	require.NoError(t, core.Open(l).SetConfig(Config{IOMaps: 1}))
	c, err := (&Dialer{Device: n.a}).DialAddr(testContext(t), l.addr.AddrPort)
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
	_, err := core.Open(s).TryRead(make([]byte, 1))
	require.Equal(t, syscall.EAGAIN, err)
	_, err = core.Open(s).TryPeek(make([]byte, 1))
	require.Equal(t, syscall.EAGAIN, err)
	_, err = c.Write([]byte{1})
	require.NoError(t, err)
	require.NoError(t, <-got)
}

// The zero connection.
func TestTryZero(t *testing.T) {
	var c Conn
	core.Open(&c).Notify(func() {})
	_, err := core.Open(&c).TryRead(nil)
	require.ErrorIs(t, err, syscall.EINVAL)
	_, err = core.Open(&c).TryPeek(nil)
	require.ErrorIs(t, err, syscall.EINVAL)
	_, err = core.Open(&c).TryWrite(nil)
	require.ErrorIs(t, err, syscall.EINVAL)
	_, err = core.Open(&c).TryMap(nil, 0)
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorIs(t, core.Open(&c).TryCloseWrite(), syscall.EINVAL)
	require.ErrorIs(t, core.Open(&c).TryDisconnect(), syscall.EINVAL)
	require.True(t, core.Open(&c).Ready().Over)
}
