package verbs

import (
	"encoding/binary"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/stretchr/testify/require"
)

// A region is read while a peer writes to it, and packets are seen whole.
func TestReadAtInOrder(t *testing.T) {
	ctx := testContext(t)
	for name, cfg := range map[string]Config{"event": {}, "polling": {Polling: true}} {
		t.Run(name, func(t *testing.T) {
			a := newEnd(t, openDevice(t, Config{}), 1<<12, QPInitAttr{})
			b := newEnd(t, openDevice(t, cfg), 1<<12, QPInitAttr{})
			connect(t, a, b)
			const last = 200
			done := make(chan error, 1)
			go func() {
				done <- func() error {
					for i := uint64(1); i <= last; i++ {
						var v [16]byte
						binary.LittleEndian.PutUint64(v[:], i)
						binary.LittleEndian.PutUint64(v[8:], ^i)
						if _, err := a.mr.WriteAt(v[:], 8); err != nil {
							return err
						}
						err := a.qp.PostSend(&SendWR{
							Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(8, 16)},
							RemoteAddr: b.mr.Addr() + 100, RKey: b.mr.RKey(),
						})
						if err != nil {
							return err
						}
						var wcs [1]WC
						if _, err := a.cq.Wait(ctx, wcs[:]); err != nil {
							return err
						}
						if err := WCError(&wcs[0]); err != nil {
							return err
						}
					}
					return nil
				}()
			}()
			var wcs [1]WC
			for seen := uint64(0); seen < last; {
				var v [16]byte
				n, err := b.mr.ReadAt(v[:], 100)
				require.NoError(t, err)
				require.Equal(t, 16, n)
				i := binary.LittleEndian.Uint64(v[:])
				require.GreaterOrEqual(t, i, seen)
				if i > 0 {
					require.Equal(t, ^i, binary.LittleEndian.Uint64(v[8:]))
				}
				seen = i
				_, err = b.cq.Poll(wcs[:])
				require.NoError(t, err)
				runtime.Gosched()
			}
			if b.d.s.Mode() == shard.Polling { // the last acknowledgement
				_, err := b.cq.Poll(wcs[:])
				require.NoError(t, err)
			}
			require.NoError(t, <-done)
		})
	}
}

func TestReadAtBounds(t *testing.T) {
	d := openDevice(t, Config{})
	e := newEnd(t, d, 100, QPInitAttr{})
	n, err := e.mr.WriteAt([]byte("abc"), 97)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	n, err = e.mr.WriteAt([]byte("xyz"), 98)
	require.Equal(t, io.ErrShortWrite, err)
	require.Equal(t, 2, n)
	var b [4]byte
	n, err = e.mr.ReadAt(b[:], 96)
	require.NoError(t, err)
	require.Equal(t, "\x00axy", string(b[:n]))
	n, err = e.mr.ReadAt(b[:], 98)
	require.Equal(t, io.EOF, err)
	require.Equal(t, "xy", string(b[:n]))
	for _, off := range []int64{100, 1 << 40} {
		n, err = e.mr.ReadAt(b[:], off)
		require.Equal(t, io.EOF, err)
		require.Zero(t, n)
	}
	empty, err := e.pd.RegisterMR(nil, 0, nil)
	require.NoError(t, err)
	_, err = empty.ReadAt(b[:], 0)
	require.Equal(t, io.EOF, err, "registered, and without a byte")
	_, err = e.mr.ReadAt(b[:], -1)
	require.ErrorAs(t, err, new(*ArgError))
	require.NoError(t, e.mr.Close())
	_, err = e.mr.ReadAt(b[:], 0)
	require.ErrorIs(t, err, mem.ErrDestroyed)
	require.NoError(t, d.Close())
	_, err = e.mr.WriteAt(b[:], 0)
	require.ErrorIs(t, err, ErrClosed)
}

// A peer that reads a region while its memory is exchanged gets the new memory as soon as the old
// one has been given back, though Reregister has not returned.
func TestReadAtDuringReregister(t *testing.T) {
	d := openDevice(t, Config{})
	pd, err := d.AllocPD()
	require.NoError(t, err)
	var mr *MR
	var got [3]byte
	var readErr error
	mr, err = pd.RegisterMR([]byte("old"), LocalWrite, &MROptions{OnRelease: func() {
		_, readErr = mr.ReadAt(got[:], 0)
	}})
	require.NoError(t, err)
	require.NoError(t, mr.Reregister(Rereg{Bytes: []byte("new")}))
	require.NoError(t, readErr)
	require.Equal(t, "new", string(got[:]))
	require.Equal(t, "new", string(mr.Bytes()))
	require.NoError(t, mr.Close())
}

// Of two that close a region at once, neither returns before its memory has been given back.
func TestCloseMRTwiceAtOnce(t *testing.T) {
	d := openDevice(t, Config{})
	pd, err := d.AllocPD()
	require.NoError(t, err)
	for range 100 {
		var released atomic.Bool
		mr, err := pd.RegisterMR(make([]byte, 64), LocalWrite, &MROptions{OnRelease: func() {
			runtime.Gosched()
			released.Store(true)
		}})
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if err := mr.Close(); err != nil || !released.Load() {
					t.Errorf("closed: %v, released %v", err, released.Load())
				}
			})
		}
		wg.Wait()
		require.Nil(t, mr.Bytes())
	}
	require.NoError(t, pd.Close())
}
