package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/goroce/goroce/bench/apps/store"
	"github.com/goroce/goroce/roce"
)

// storeJournal is a client that writes to its standard output what it does, in the order in which
// it does it:
//
//	o K          it has opened the volume, K replicas are in sync
//	r BLOCK N    what it found in a block
//	i BLOCK N    it begins to write N to a block
//	a BLOCK N K  that was acknowledged, with so many replicas in sync
//	F K, f K     it begins a flush; that was acknowledged
//	s K          so many replicas are in sync
//
// It goes on until it is killed, its standard input ends, or no replica is left. life makes its
// numbers greater than those of the clients before.
func storeJournal(ctx context.Context, addrs []string, blocks, writers int, life uint64) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop(nil)
	}()
	at, err := netip.ParseAddrPort(addrs[0])
	if err != nil {
		return err
	}
	d, err := roce.DefaultDeviceFor(netip.Addr{}, at.Addr())
	if err != nil {
		return err
	}
	var v *store.Volume
	for begin := time.Now(); ; wait(ctx, 20*time.Millisecond) { // replicas are on their way
		if v, err = store.Open(ctx, d, addrs, blocks); err == nil {
			break
		}
		if time.Since(begin) > time.Minute || ctx.Err() != nil {
			return fmt.Errorf("the volume cannot be opened: %w", err)
		}
	}
	defer v.Close()
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(os.Stdout, format+"\n", args...)
	}
	fill := func(n uint64) []byte { return bytes.Repeat(binary.BigEndian.AppendUint64(nil, n), store.BlockBytes/8) }
	model := make([]uint64, blocks)
	b := make([]byte, store.BlockBytes)
	for block := range blocks {
		if err := v.ReadBlock(ctx, block, b); err != nil {
			return err
		}
		if model[block] = binary.BigEndian.Uint64(b); !bytes.Equal(b, fill(model[block])) {
			return fmt.Errorf("%w: block %d is half of one", errWrong, block)
		}
		say("r %d %d", block, model[block])
	}
	say("o %d", v.InSync())
	var running sync.WaitGroup
	running.Go(func() {
		for last := 0; ctx.Err() == nil; wait(ctx, 5*time.Millisecond) {
			if n := v.InSync(); n != last {
				say("s %d", n)
				last = n
			}
		}
	})
	for w := range writers {
		running.Go(func() {
			b := make([]byte, store.BlockBytes)
			for i := uint64(1); ctx.Err() == nil; i++ {
				n := life<<32 | i<<8 | uint64(w)
				block := rand.N(blocks/writers)*writers + w
				switch rand.N(16) {
				case 0:
					say("F %d", n)
					err := v.Flush(context.Background())
					if err != nil {
						stop(err)
						return
					}
					say("f %d", n)
				case 1, 2, 3:
					inSync := v.InSync()
					say("i %d %d", block, n)
					if err := v.WriteBlock(context.Background(), block, fill(n)); err != nil {
						stop(err)
						return
					}
					model[block] = n
					say("a %d %d %d", block, n, min(inSync, v.InSync()))
				default:
					if err := v.ReadBlock(context.Background(), block, b); err != nil {
						stop(err)
						return
					}
					if !bytes.Equal(b, fill(model[block])) {
						stop(fmt.Errorf("%w: block %d has %x, %x was written last", errWrong, block,
							b[:8], model[block]))
						return
					}
				}
			}
		})
	}
	running.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// errWrong is the error of a client that read what it must not.
var errWrong = errors.New("wrong data")

// blockModel is what may be in a block.
type blockModel struct {
	acked, both, flushed uint64   // the newest that was acknowledged, was by both replicas, is on disks
	tried                []uint64 // all that may be there
}

// storeWatch follows the journal of one client after the other.
type storeWatch struct {
	mu      sync.Mutex
	blocks  []blockModel
	flushes map[uint64][]uint64 // under way: what was acknowledged when they began
	open    bool
	inSync  int
	cut     [2]bool // replicas that have lost their memory since the client before the one that reads began
	cutNow  [2]bool // the same since this one began
	wrong   error
	writes  int
	flushed int
	changed chan struct{} // something was read
}

// line takes a line of the journal.
func (w *storeWatch) line(s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var what string
	var a, b, c uint64
	fmt.Sscan(s, &what, &a, &b, &c)
	switch what {
	case "o":
		w.open, w.inSync = true, int(a)
	case "s":
		w.inSync = int(a)
	case "r":
		m := &w.blocks[a]
		least := m.acked
		switch w.cut { // before that, and since the client before began to open the volume
		case [2]bool{true, true}:
			least = m.flushed
		case [2]bool{true, false}, [2]bool{false, true}:
			least = max(m.both, m.flushed)
		}
		if (b < least || !slices.Contains(m.tried, b)) && w.wrong == nil {
			w.wrong = fmt.Errorf("block %d has %x: %x was acknowledged, %x by both replicas, %x flushed, replicas that were cut: %v, tried: %x",
				a, b, m.acked, m.both, m.flushed, w.cut, m.tried)
		}
		*m = blockModel{b, b, b, []uint64{b}} // what is not there now never comes back
	case "i":
		w.blocks[a].tried = append(w.blocks[a].tried, b)
	case "a":
		w.blocks[a].acked = b
		if c == 2 {
			w.blocks[a].both = b
		}
		w.writes++
	case "F":
		all := make([]uint64, len(w.blocks))
		for i, m := range w.blocks {
			all[i] = m.acked
		}
		w.flushes[a] = all
	case "f":
		for i, n := range w.flushes[a] {
			w.blocks[i].flushed = max(w.blocks[i].flushed, n)
		}
		delete(w.flushes, a)
		w.flushed++
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// until waits for something that the journal says.
func (w *storeWatch) until(ctx context.Context, what string, c *child, f func() bool) error {
	t := time.NewTimer(time.Minute)
	defer t.Stop()
	for {
		w.mu.Lock()
		ok, wrong := f(), w.wrong
		w.mu.Unlock()
		if ok || wrong != nil {
			return wrong
		}
		select {
		case <-w.changed:
		case err := <-c.done:
			c.done <- err
			return nil
		case <-t.C:
			c.cmd.Process.Signal(syscall.SIGQUIT) // it says what it waits for
			_, err := c.wait()
			return fmt.Errorf("after a minute %s: %w", what, err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// storeKill cuts the power of replicas and of their client at random points, and checks what is
// there afterwards: of what was acknowledged nothing is missing as long as a replica has its
// memory, of what was flushed nothing at all.
func storeKill(ctx context.Context, rounds, blocks, writers int) error {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	addrs, err := freePorts(2)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends all children
	var replicas [2]*child
	begin := func(i int) error {
		if replicas[i] != nil {
			return nil
		}
		c, _, out, err := startPiped(ctx, "store", "-serve", addrs[i], "-file",
			filepath.Join(dir, fmt.Sprint(i)), "-blocks", fmt.Sprint(blocks), "-forget")
		if err != nil {
			return err
		}
		defer out.Close()
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
			_, e := c.wait()
			return errors.Join(fmt.Errorf("a replica says %q", line), err, e)
		}
		replicas[i] = c
		return nil
	}
	w := &storeWatch{blocks: make([]blockModel, blocks), flushes: map[uint64][]uint64{},
		changed: make(chan struct{}, 1)}
	for i := range w.blocks {
		w.blocks[i].tried = []uint64{0}
	}
	var client *child
	var journal sync.WaitGroup
	life, alone, gaveUp, kills := 0, 0, 0, 0
	dial := func() error {
		life++
		if w.open { // else the blocks were not all read
			w.cut = w.cutNow
		}
		w.open, w.inSync, w.cutNow = false, 0, [2]bool{}
		clear(w.flushes)
		c, _, out, err := startPiped(ctx, "store", "-replicas", strings.Join(addrs, ","), "-blocks",
			fmt.Sprint(blocks), "-writers", fmt.Sprint(writers), "-journal", fmt.Sprint(life))
		if err != nil {
			return err
		}
		client = c
		journal.Go(func() {
			defer out.Close()
			r := bufio.NewReader(out)
			for {
				s, err := r.ReadString('\n')
				if err != nil {
					return
				}
				w.line(s)
			}
		})
		return nil
	}
	kill := func(c *child) {
		c.cmd.Process.Kill()
		<-c.done
		kills++
	}
	started := time.Now()
	for round := range rounds {
		where := func(err error) error { return fmt.Errorf("round %d: %w", round, err) }
		for i := range replicas {
			if err := begin(i); err != nil {
				return where(err)
			}
		}
		if client == nil {
			if err := dial(); err != nil {
				return where(err)
			}
		}
		// One in eight is cut at any point of the way back; one in four in the middle of a
		// resynchronisation.
		if rand.N(8) > 0 {
			if err := w.until(ctx, "the volume is not open", client, func() bool { return w.open }); err != nil {
				return where(err)
			}
		}
		if rand.N(4) > 0 {
			if err := w.until(ctx, "a replica is not in sync", client,
				func() bool { return w.inSync == 2 }); err != nil {
				return where(err)
			}
		}
		wait(ctx, time.Duration(rand.N(100_000))*time.Microsecond)
		one, other, it, stay := rand.N(2), false, false, false
		switch rand.N(16) {
		case 0, 1, 2, 3, 4, 5, 6: // a replica
		case 7: // one that is away for a while: the other one goes on alone, and so does another client
			stay = true
		case 8, 9: // the client
			one, it = -1, true
		case 10, 11:
			it = true
		default:
			other, it = true, true
		}
		w.mu.Lock()
		both := w.inSync == 2
		w.mu.Unlock()
		cut := func(i int) {
			kill(replicas[i])
			replicas[i] = nil
			w.mu.Lock()
			w.cut[i], w.cutNow[i] = true, true
			w.mu.Unlock()
		}
		if one >= 0 {
			cut(one)
		}
		if other {
			cut(1 - one)
		}
		if stay {
			if both {
				if err := w.until(ctx, "the client has not noticed that a replica is gone", client,
					func() bool { return w.inSync < 2 }); err != nil {
					return where(err)
				}
			}
			wait(ctx, time.Duration(rand.N(50_000))*time.Microsecond)
			it = rand.N(2) == 0
		}
		select {
		case err := <-client.done:
			if strings.Contains(client.out.String(), errWrong.Error()) {
				return where(fmt.Errorf("%w\n%s", err, client.out.String()))
			}
			gaveUp++
			client = nil
		default:
			if it {
				kill(client)
				client = nil
			}
		}
		if client == nil {
			journal.Wait()
		}
		if stay && both && client == nil && w.inSync == 1 {
			// Another client opens what is left, writes to it, and goes down with it.
			alone++
			if err := dial(); err != nil {
				return where(err)
			}
			if err := w.until(ctx, "one replica that is the newest is not enough", client,
				func() bool { return w.open }); err != nil {
				return where(err)
			}
			wait(ctx, time.Duration(rand.N(50_000))*time.Microsecond)
			if rand.N(2) == 0 {
				kill(client)
				client = nil
				journal.Wait()
				cut(1 - one)
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.mu.Lock()
		wrong := w.wrong
		w.mu.Unlock()
		if wrong != nil {
			return where(wrong)
		}
	}
	fmt.Printf("%d power cuts in %v, kill -9 of %d processes: %d clients, %d of which found one replica of two; %d writes and %d flushes were acknowledged; %d times no replica was left and the client gave up; nothing that was flushed is missing, nothing that was acknowledged of which a replica lived on\n",
		rounds, time.Since(started).Round(time.Second), kills, life, alone, w.writes, w.flushed, gaveUp)
	return nil
}
