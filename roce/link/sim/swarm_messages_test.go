package sim_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
)

// session carries out up to n operations and returns how many.
func (c *swarmClient) session(conn *roce.Conn, n int) int {
	var mem roce.RemoteMemory
	if !c.call("shared", func(ctx context.Context) (err error) {
		mem, err = conn.Shared(ctx)
		return err
	}) {
		return 0
	}
	model := make([]byte, swarmMemory)
	for i := range n {
		ok := false
		switch c.rng.IntN(8) {
		case 0, 1:
			ok = c.echo(conn)
		case 2:
			ok = c.write(conn, mem, model)
		case 3:
			ok = c.atomics(conn, mem, model)
		case 4:
			ok = c.batch(conn, mem, model)
		case 5:
			ok = c.parallel(conn, mem, model)
		case 6:
			// Nothing is to come: it is given up, and nothing is lost by that.
			if c.impatient("receive", func(ctx context.Context) error {
				_, err := conn.Recv(ctx, make([]byte, 1))
				return err
			}) {
				c.w.t.Errorf("%v: a message out of nowhere", c.h.addr)
			}
			ok = true
		default:
			time.Sleep(time.Duration(c.rng.ExpFloat64() * float64(2*time.Second)))
			ok = true
		}
		if !ok {
			return i
		}
	}
	return n
}

func (c *swarmClient) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(c.rng.Uint32())
	}
	return b
}

// echo sends a few messages, and receives them again.
func (c *swarmClient) echo(conn *roce.Conn) bool {
	want := make([][]byte, 1+c.rng.IntN(5))
	for i := range want {
		want[i] = c.bytes(c.rng.IntN(roce.DefaultRecvBytes + 1))
		if !c.call("send", func(ctx context.Context) error { return conn.Send(ctx, want[i]) }) {
			return false
		}
	}
	b := make([]byte, roce.DefaultRecvBytes)
	for _, m := range want {
		got := 0
		if !c.call("receive", func(ctx context.Context) (err error) {
			got, err = conn.Recv(ctx, b)
			return err
		}) {
			return false
		}
		if !bytes.Equal(b[:got], m) {
			c.w.t.Errorf("%v: %d bytes came back for %d", c.h.addr, got, len(m))
		}
	}
	return true
}

// write writes somewhere, and reads all.
func (c *swarmClient) write(conn *roce.Conn, mem roce.RemoteMemory, model []byte) bool {
	off := c.rng.IntN(swarmMemory)
	data := c.bytes(c.rng.IntN(swarmMemory - off + 1))
	if !c.call("write", func(ctx context.Context) error { return conn.Write(ctx, data, mem.Slice(off, len(data))) }) {
		return false
	}
	copy(model[off:], data)
	return c.same(conn, mem, model)
}

// same compares the memory of the peer with the model.
func (c *swarmClient) same(conn *roce.Conn, mem roce.RemoteMemory, model []byte) bool {
	got := make([]byte, swarmMemory)
	if !c.call("read", func(ctx context.Context) error { return conn.Read(ctx, got, mem) }) {
		return false
	}
	if !bytes.Equal(got, model) {
		c.w.t.Errorf("%v: the peer's memory is not what was written", c.h.addr)
	}
	return true
}

// atomics are carried out once each.
func (c *swarmClient) atomics(conn *roce.Conn, mem roce.RemoteMemory, model []byte) bool {
	for range 1 + c.rng.IntN(4) {
		off := c.rng.IntN(swarmMemory/8) * 8
		at, word := mem.Slice(off, 8), model[off:off+8]
		want, delta := binary.NativeEndian.Uint64(word), c.rng.Uint64()
		var got uint64
		swap := c.rng.IntN(2) == 0
		if !c.call("atomic", func(ctx context.Context) (err error) {
			if swap {
				got, err = conn.CompareSwap(ctx, at, want, delta)
			} else {
				got, err = conn.FetchAdd(ctx, at, delta)
			}
			return err
		}) {
			return false
		}
		if got != want {
			c.w.t.Errorf("%v: an atomic found %#x and not %#x", c.h.addr, got, want)
		}
		if swap {
			binary.NativeEndian.PutUint64(word, delta)
		} else {
			binary.NativeEndian.PutUint64(word, want+delta)
		}
	}
	return c.same(conn, mem, model)
}

// batch posts work requests to the queue pair itself: each completes once, in order.
func (c *swarmClient) batch(conn *roce.Conn, mem roce.RemoteMemory, model []byte) bool {
	n := 1 + c.rng.IntN(40)
	for i := range n {
		off := c.rng.IntN(swarmMemory - 64)
		data := c.bytes(64)
		copy(model[off:], data)
		if err := conn.QP().PostSend(&verbs.SendWR{
			ID: uint64(i), Opcode: verbs.WRWrite, Flags: verbs.SendSignaled | verbs.SendInline, Inline: data,
			RemoteAddr: mem.Addr + uint64(off), RKey: mem.RKey,
		}); err != nil {
			if c.well || c.w.o.cuts+c.w.o.kills == 0 {
				c.w.t.Error(err)
			}
			n = i
			break
		}
	}
	good := true
	for i := range n {
		var wc verbs.WC
		if !c.call("completion", func(ctx context.Context) (err error) {
			wc, err = conn.Completion(ctx)
			return err
		}) {
			return false
		}
		if wc.ID != uint64(i) || wc.Status == verbs.WCSuccess && !good {
			c.w.t.Errorf("%v: completion %d, %v, instead of %d", c.h.addr, wc.ID, wc.Status, i)
		}
		good = good && wc.Status == verbs.WCSuccess
	}
	return good && c.same(conn, mem, model)
}

// parallel has goroutines use the connection at the same time: some exchange messages, and
// some work on parts of the memory.
func (c *swarmClient) parallel(conn *roce.Conn, mem roce.RemoteMemory, model []byte) bool {
	const parts = 3
	ok := make([]bool, parts+3)
	var all sync.WaitGroup
	fork := func(i int, f func(c *swarmClient) bool) {
		own := *c
		own.rng = rand.New(rand.NewPCG(c.rng.Uint64(), 0))
		all.Go(func() { ok[i] = f(&own) })
	}
	for i := range parts {
		off, n := i*swarmMemory/parts, swarmMemory/parts
		fork(i, func(c *swarmClient) bool {
			for range 3 {
				data, got := c.bytes(c.rng.IntN(n+1)), make([]byte, n)
				if !c.call("write", func(ctx context.Context) error {
					return conn.Write(ctx, data, mem.Slice(off, len(data)))
				}) ||
					!c.call("read", func(ctx context.Context) error { return conn.Read(ctx, got, mem.Slice(off, n)) }) {
					return false
				}
				copy(model[off:], data)
				if !bytes.Equal(got, model[off:off+n]) {
					c.w.t.Errorf("%v: the part of memory from %d is not what was written", c.h.addr, off)
				}
			}
			return true
		})
	}
	const messages = 10
	sizes := make([]int, messages)
	for i := range sizes {
		sizes[i] = c.rng.IntN(roce.DefaultRecvBytes + 1)
	}
	fork(parts, func(c *swarmClient) bool {
		for _, n := range sizes {
			if !c.call("send", func(ctx context.Context) error { return conn.Send(ctx, make([]byte, n)) }) {
				return false
			}
		}
		return true
	})
	fork(parts+1, func(c *swarmClient) bool {
		b := make([]byte, roce.DefaultRecvBytes)
		for _, want := range sizes {
			got := 0
			if !c.call("receive", func(ctx context.Context) (err error) {
				got, err = conn.Recv(ctx, b)
				return err
			}) {
				return false
			}
			if got != want {
				c.w.t.Errorf("%v: a message of %d bytes came back with %d", c.h.addr, want, got)
			}
		}
		return true
	})
	fork(parts+2, func(c *swarmClient) bool {
		for range 1 + c.rng.IntN(3) {
			// It may be the one that takes in what the others wait for, until it gives up.
			if c.impatient("wait", conn.Wait) {
				return false
			}
		}
		return true
	})
	all.Wait()
	return !slices.Contains(ok, false)
}
