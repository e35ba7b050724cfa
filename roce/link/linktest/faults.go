package linktest

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// Faults replaces the system calls of a link. A seed draws bursts in which they fail; other calls
// do only a part of what they are asked for. The zero value lets all of them through.
type Faults struct {
	r          *rand.Rand
	send, recv burst
	hits       atomic.Int64 // calls that failed
}

// burst is some calls in a row that fail with one error.
type burst struct {
	errno unix.Errno
	left  int
}

// What calls fail with that does not end a link.
var (
	sendErrors = []unix.Errno{
		unix.EAGAIN, unix.EINTR, unix.ENOBUFS, unix.ENOMEM, unix.EPERM, unix.EACCES, unix.EIO,
		unix.EINVAL, unix.EMSGSIZE, unix.EOPNOTSUPP, unix.ENETDOWN, unix.ENETUNREACH, unix.EHOSTUNREACH,
		unix.EHOSTDOWN, unix.ENXIO, unix.ENODEV,
	}
	recvErrors = []unix.Errno{ // not EAGAIN: the kernel has it only where there is nothing
		unix.EINTR, unix.ENOBUFS, unix.ENOMEM, unix.EPERM, unix.EACCES, unix.EMSGSIZE, unix.EPROTO,
		unix.ECONNREFUSED, unix.ENETDOWN, unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EHOSTDOWN,
	}
	// kickErrors are those of a call that has the kernel look at a ring.
	kickErrors = []unix.Errno{unix.EAGAIN, unix.EBUSY, unix.ENOBUFS, unix.ENOMEM, unix.EINTR, unix.ENETDOWN, unix.ENXIO}
	// deadErrors end it.
	deadErrors = []unix.Errno{unix.EBADF, unix.ENOTSOCK, unix.ENOTCONN, unix.EPIPE, unix.ECONNABORTED}
)

// longBurst is more than a poll that something ends at once takes before it naps.
const longBurst = 40

// newFaults draws faults from a seed.
func newFaults(seed uint64) *Faults { return &Faults{r: rand.New(rand.NewPCG(seed, 26))} }

// AllFail makes each call fail with an error.
func (f *Faults) AllFail(send, recv unix.Errno) {
	if send != 0 {
		f.send = burst{send, 1 << 30}
	}
	if recv != 0 {
		f.recv = burst{recv, 1 << 30}
	}
}

func (f *Faults) draw(b *burst, of []unix.Errno) unix.Errno {
	if b.left == 0 && f.r != nil && f.r.IntN(4) == 0 {
		*b = burst{of[f.r.IntN(len(of))], 1 + f.r.IntN(4)}
		if f.r.IntN(16) == 0 {
			b.left = longBurst
		}
	}
	if b.left == 0 {
		return 0
	}
	b.left--
	f.hits.Add(1)
	return b.errno
}

// part returns how many of n messages a call takes.
func (f *Faults) part(n int) int {
	if f.r == nil || f.r.IntN(2) == 0 {
		return n
	}
	return 1 + f.r.IntN(n)
}

// Send is sockio.Send.
func (f *Faults) Send(fd int, msgs []sockio.Mmsghdr) (int, unix.Errno) {
	if errno := f.draw(&f.send, sendErrors); errno != 0 {
		return 0, errno
	}
	return sockio.Send(fd, msgs[:f.part(len(msgs))])
}

// Recv is sockio.Recv.
func (f *Faults) Recv(fd int, msgs []sockio.Mmsghdr) (int, unix.Errno) {
	if errno := f.draw(&f.recv, recvErrors); errno != 0 {
		return 0, errno
	}
	return sockio.Recv(fd, msgs[:f.part(len(msgs))])
}

// Kick is for a call that has the kernel look at a ring: its error, or 0 if it is to be made.
func (f *Faults) Kick() unix.Errno { return f.draw(&f.send, kickErrors) }

// RunFaults sends packets from A to B, over seeds, while system calls of both fail. Whatever the
// error, each packet is received once, with its bytes and in the order of its path, or counted as
// dropped. inject routes the calls of a link through f, and resets what the link has learned of the
// kernel, such as that it does not segment.
func RunFaults(t *testing.T, p Pair, inject func(l link.Link, f *Faults)) {
	Reaches(t, p.A, p.B, NewPath(p.A, p.B))
	Drive(t, p.A, func() bool { return !p.A.Blocked() })
	Drain(t, p.B)
	hits := int64(0)
	n := seeds.Run(t, seeds.Fewer(100), func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		fa, fb := newFaults(seed), newFaults(^seed)
		inject(p.A, fa)
		inject(p.B, fb)
		w := newFaultWatch(p, r)
		for range 1 + r.IntN(6) {
			w.send(t)
			for w.receive(t) {
			}
		}
		inject(p.A, &Faults{})
		inject(p.B, &Faults{})
		w.end(t)
		hits += fa.hits.Load() + fb.hits.Load()
	})
	if n > 2 {
		require.NotZero(t, hits)
	}
}

// faultWatch compares what is sent with what comes.
type faultWatch struct {
	p        Pair
	r        *rand.Rand
	paths    []*edge.Path
	since    func() link.Stats
	number   map[string]int // of a packet by its contents
	path     []*edge.Path
	last     map[*edge.Path]int
	sent     int
	got      int
	batch    []edge.RxPacket
	deadline time.Time
}

func newFaultWatch(p Pair, r *rand.Rand) *faultWatch {
	w := &faultWatch{
		p: p, r: r, since: countersOf(p.A), number: map[string]int{}, last: map[*edge.Path]int{},
		batch: make([]edge.RxPacket, 9), deadline: time.Now().Add(giveUp),
	}
	for i := range 1 + r.IntN(5) {
		w.paths = append(w.paths, NewPath(p.A, p.B))
		w.paths[i].SrcPort += uint16(r.IntN(3))
		w.last[w.paths[i]] = -1
	}
	return w
}

// send sends a batch, and what waits of it.
func (w *faultWatch) send(t *testing.T) {
	t.Helper()
	batch := make([]edge.TxPacket, 1+w.r.IntN(80))
	size := []int{8, 100, 600, w.p.maxPayload()}[w.r.IntN(4)]
	for i := range batch {
		tx := Packet(w.r, w.paths[w.r.IntN(len(w.paths))], size)
		if w.r.IntN(20) == 0 {
			tx = Packet(w.r, tx.Path, 8+w.r.IntN(size-7))
		}
		w.number[string(tx.AppendTo(nil))] = len(w.path)
		w.path = append(w.path, tx.Path)
		batch[i] = tx
	}
	w.sent += len(batch)
	w.p.A.Send(batch)
	for w.p.A.Blocked() {
		require.NoError(t, w.p.A.Wait(time.Minute))
		w.p.A.Send(nil)
		w.receive(t)
		require.True(t, time.Now().Before(w.deadline), "%d of %d packets do not leave", w.sent-w.got, w.sent)
	}
}

// receive takes some of what has come.
func (w *faultWatch) receive(t *testing.T) bool {
	t.Helper()
	n, err := receive(w.p.B, w.batch)
	require.NoError(t, err)
	for _, rx := range w.batch[:n] {
		content := string(rx.Data[:len(rx.Data)-ib.ICRCBytes])
		i, ok := w.number[content]
		require.True(t, ok, "a packet that was not sent, or has come before: %x", rx.Data)
		delete(w.number, content)
		require.Greater(t, i, w.last[w.path[i]], "in order")
		w.last[w.path[i]] = i
		w.got++
	}
	return n > 0
}

// end awaits what is left when calls do not fail any more.
func (w *faultWatch) end(t *testing.T) {
	t.Helper()
	w.send(t)
	a := w.since()
	require.EqualValues(t, w.sent, a.TxPackets+a.TxDropped, "each packet was sent or counted")
	for w.got < int(a.TxPackets) {
		if !w.receive(t) {
			require.NoError(t, w.p.B.Wait(time.Second))
		}
		require.True(t, time.Now().Before(w.deadline), "%d of %d packets that were sent have come", w.got, a.TxPackets)
	}
	require.False(t, w.receive(t))
}

// RunDead makes a system call report that the sockets of a link are dead. The error ends the link,
// whichever side sees it, and wakes waiting goroutines. Nothing may be written to the descriptor
// afterwards, since it may belong to another file. open makes a link, which RunDead closes, and b
// is a peer.
func RunDead(t *testing.T, open func(t *testing.T) link.Link, b link.Link, inject func(l link.Link, f *Faults)) {
	for i, errno := range deadErrors {
		for k, side := range []string{"send", "receive"} {
			if i >= 2 && i%2 == k { // one of them does
				continue
			}
			t.Run(errno.Error()+", "+side, func(t *testing.T) {
				a := open(t)
				path := NewPath(a, b)
				Reaches(t, a, b, path)
				Drive(t, a, func() bool { return !a.Blocked() })
				f := &Faults{}
				packet := []edge.TxPacket{Packet(rand.New(rand.NewPCG(1, 1)), path, 64)}
				if side == "send" {
					f.AllFail(errno, 0)
				} else {
					f.AllFail(0, errno)
				}
				inject(a, f)
				ended := make(chan error)
				go func() {
					batch := make([]edge.RxPacket, 4)
					for {
						n, err := a.Recv(batch)
						if err == nil && n == 0 {
							err = a.Wait(-1)
						}
						if err != nil {
							ended <- err
							return
						}
					}
				}()
				if side == "send" {
					a.Send(packet)
				} else {
					a.Wake()
				}
				select {
				case err := <-ended:
					require.ErrorIs(t, err, errno)
					require.Equal(t, err, a.Wait(-1))
					_, again := a.Recv(make([]edge.RxPacket, 1))
					require.Equal(t, err, again)
				case <-time.After(giveUp):
					t.Fatal("the link goes on")
				}
				hits, since := f.hits.Load(), countersOf(a)
				a.Send(packet)
				require.EqualValues(t, 1, since().TxDropped)
				require.Equal(t, hits, f.hits.Load())
				require.NoError(t, a.Close())
				require.True(t, errors.Is(a.Wait(-1), link.ErrClosed))
			})
		}
	}
}
