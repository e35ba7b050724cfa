package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
)

var cuts = flag.Int("cuts", 15, "power cuts of TestPowerCuts")

const blocks = 12

// fakeDisk keeps what was persisted, and loses what was not, sector by sector, when its power is
// cut.
type fakeDisk struct {
	mu     sync.Mutex
	memory []byte
	lasts  []byte
	refuse func(*fakeDisk) bool // nothing can be written any more
}

func newFakeDisk() *fakeDisk {
	return &fakeDisk{memory: make([]byte, diskBytes(blocks)), lasts: make([]byte, diskBytes(blocks))}
}

func (d *fakeDisk) Bytes() []byte { return d.memory }
func (d *fakeDisk) Close() error  { return nil }

func (d *fakeDisk) Persist(from, n int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuse != nil && d.refuse(d) {
		return errors.New("broken")
	}
	copy(d.lasts[from:from+n], d.memory[from:])
	return nil
}

// lose returns the disk with what was flushed, and nothing else.
func (d *fakeDisk) lose() *fakeDisk {
	after := newFakeDisk()
	copy(after.lasts, d.lasts)
	copy(after.memory, d.lasts)
	return after
}

// cut returns the disk that is there when the power is back: of what was not flushed any sectors
// may have been written.
func (d *fakeDisk) cut() *fakeDisk {
	const sector = 512
	after := newFakeDisk()
	for at := 0; at < len(d.lasts); at += sector {
		from := d.lasts
		if rand.N(2) == 0 {
			from = d.memory
		}
		end := min(at+sector, len(d.lasts))
		copy(after.lasts[at:end], from[at:end])
	}
	copy(after.memory, after.lasts)
	return after
}

func device(t *testing.T, fabric *sim.Fabric, last byte) *verbs.Device {
	link, err := fabric.Link(netip.AddrFrom4([4]byte{192, 0, 2, last}))
	if err != nil {
		t.Fatal(err)
	}
	d, err := verbs.Open(verbs.Config{Link: link})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// server is a replica that can be ended and begun again.
type server struct {
	t      *testing.T
	device *verbs.Device
	addr   string
	disk   *fakeDisk
	r      *Replica
	done   chan error
}

func (s *server) start() {
	r, err := Listen(s.t.Context(), s.device, s.addr, s.disk)
	if err != nil {
		s.t.Fatal(err)
	}
	s.r, s.done = r, make(chan error, 1)
	go func() { s.done <- r.Serve(s.t.Context()) }()
}

func (s *server) stop() {
	s.r.Close()
	<-s.done
}

// pair makes two replicas.
func pair(t *testing.T, fabric *sim.Fabric) (servers []*server, addrs []string) {
	for i := range byte(2) {
		addr := fmt.Sprintf("192.0.2.%d:7471", i+1)
		s := &server{t: t, device: device(t, fabric, i+1), addr: addr, disk: newFakeDisk()}
		s.start()
		t.Cleanup(s.stop)
		servers, addrs = append(servers, s), append(addrs, addr)
	}
	return servers, addrs
}

func open(t *testing.T, d *verbs.Device, addrs []string) *Volume {
	t.Helper()
	v, err := Open(t.Context(), d, addrs, blocks)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Log("close:", err)
		}
	})
	return v
}

func sleep(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

// inSync waits until both replicas are.
func inSync(t *testing.T, v *Volume) {
	t.Helper()
	for i := 0; v.InSync() < 2; i++ {
		if i == 1000 {
			t.Fatal("a replica that is back is not in sync after ten seconds")
		}
		sleep(t.Context(), 10*time.Millisecond)
	}
}

// fill is the block of a number: the same eight bytes over and over, so that half a block is seen.
func fill(n uint64) []byte {
	b := make([]byte, 0, BlockBytes)
	for len(b) < BlockBytes {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

func number(t *testing.T, b []byte) uint64 {
	n := binary.BigEndian.Uint64(b)
	if !bytes.Equal(b, fill(n)) {
		t.Fatalf("half of a block: %x ... %x", b[:8], b[BlockBytes-8:])
	}
	return n
}

func TestReadWrite(t *testing.T) {
	sim.Test(t, sim.Config{
		Seed: rand.Uint64(), Faults: sim.Faults{Loss: 0.01, Duplicate: 0.01},
	}, func(t *testing.T, fabric *sim.Fabric) {
		_, addrs := pair(t, fabric)
		v := open(t, device(t, fabric, 10), addrs)
		ctx := t.Context()
		b := make([]byte, BlockBytes)
		if err := v.ReadBlock(ctx, 3, b); err != nil || number(t, b) != 0 {
			t.Fatal(err)
		}
		var writers sync.WaitGroup
		for block := range blocks {
			writers.Go(func() {
				got := make([]byte, BlockBytes)
				for n := range uint64(20) {
					if err := v.WriteBlock(ctx, block, fill(n<<8|uint64(block))); err != nil {
						t.Error(err)
						return
					}
					if n%5 == 0 {
						if err := v.Flush(ctx); err != nil {
							t.Error(err)
							return
						}
					}
					for range 2 { // of both replicas
						if err := v.ReadBlock(ctx, block, got); err != nil ||
							!bytes.Equal(got, fill(n<<8|uint64(block))) {
							t.Errorf("block %d: %x, %v", block, got[:8], err)
							return
						}
					}
				}
			})
		}
		writers.Wait()
		for _, block := range []int{-1, blocks} {
			if v.ReadBlock(ctx, block, b) == nil || v.WriteBlock(ctx, block, b) == nil ||
				v.WriteBlock(ctx, 0, b[1:]) == nil {
				t.Error("block", block)
			}
		}
	})
}

// One replica fails and comes back, again and again, while a client writes. Nothing that was
// acknowledged is lost, and at the end both have everything.
func TestReplicaFails(t *testing.T) {
	sim.Test(t, sim.Config{Seed: rand.Uint64()}, func(t *testing.T, fabric *sim.Fabric) {
		servers, addrs := pair(t, fabric)
		v := open(t, device(t, fabric, 10), addrs)
		ctx, stop := context.WithCancel(t.Context())
		var model [blocks]uint64
		var client sync.WaitGroup
		client.Go(func() {
			b := make([]byte, BlockBytes)
			for n := uint64(1); ctx.Err() == nil; n++ {
				block := rand.N(blocks)
				if err := v.WriteBlock(t.Context(), block, fill(n)); err != nil {
					t.Error(err)
					return
				}
				model[block] = n
				if n%7 == 0 {
					if err := v.Flush(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
				block = rand.N(blocks)
				if err := v.ReadBlock(t.Context(), block, b); err != nil || number(t, b) != model[block] {
					t.Errorf("block %d: %d, want %d, %v", block, number(t, b), model[block], err)
					return
				}
				sleep(ctx, time.Millisecond)
			}
		})
		for range 6 {
			s := servers[rand.N(2)]
			sleep(t.Context(), time.Duration(rand.N(300))*time.Millisecond)
			s.stop()
			s.disk = s.disk.cut()
			sleep(t.Context(), time.Duration(rand.N(2000))*time.Millisecond)
			s.start()
			inSync(t, v)
		}
		stop()
		client.Wait()
		inSync(t, v)
		if err := v.Close(); err != nil {
			t.Error(err)
		}
		for i, s := range servers { // each alone, by the model
			if alone := binary.LittleEndian.Uint64(s.disk.memory[8:]); alone != 0 {
				t.Errorf("replica %d is marked as alone", i)
			}
		}
		v = open(t, device(t, fabric, 11), addrs)
		b := make([]byte, BlockBytes)
		for range 2 {
			for block, n := range model {
				if err := v.ReadBlock(t.Context(), block, b); err != nil || number(t, b) != n {
					t.Errorf("block %d: %d, want %d, %v", block, number(t, b), n, err)
				}
			}
		}
	})
}

// The power of everything is cut at any moment: of both replicas, with the client in the middle of
// writes. What was flushed is there, or what was written later; no block is torn.
func TestPowerCuts(t *testing.T) {
	sim.Test(t, sim.Config{Seed: rand.Uint64()}, func(t *testing.T, fabric *sim.Fabric) {
		servers, addrs := pair(t, fabric)
		var flushed, written [blocks]uint64
		n := uint64(0)
		for cut := range *cuts {
			d := device(t, fabric, byte(10+cut%200))
			v, err := Open(t.Context(), d, addrs, blocks)
			if err != nil {
				t.Fatal(err)
			}
			b := make([]byte, BlockBytes)
			for block := range blocks {
				if err := v.ReadBlock(t.Context(), block, b); err != nil {
					t.Fatal(err)
				}
				if got := number(t, b); got < flushed[block] || got > written[block] {
					t.Fatalf("cut %d, block %d: %d; %d was flushed, %d written last", cut, block, got,
						flushed[block], written[block])
				}
				flushed[block] = binary.BigEndian.Uint64(b) // opening flushes
				written[block] = flushed[block]
			}
			var client sync.WaitGroup
			client.Go(func() {
				for {
					n++
					block := rand.N(blocks)
					written[block] = n
					if v.WriteBlock(t.Context(), block, fill(n)) != nil {
						return
					}
					if rand.N(4) == 0 {
						if v.Flush(t.Context()) != nil {
							return
						}
						copy(flushed[:], written[:])
					}
				}
			})
			sleep(t.Context(), time.Duration(rand.N(5000))*time.Microsecond)
			for _, s := range servers {
				s.stop()
				s.disk = s.disk.cut()
			}
			client.Wait()
			v.Close()
			d.Close()
			for _, s := range servers {
				s.start()
			}
		}
	})
}

// A replica that missed something is not believed alone, the one that has everything is.
func TestStale(t *testing.T) {
	sim.Test(t, sim.Config{Seed: 1}, func(t *testing.T, fabric *sim.Fabric) {
		servers, addrs := pair(t, fabric)
		v := open(t, device(t, fabric, 10), addrs)
		ctx := t.Context()
		servers[0].stop()
		if err := errors.Join(v.WriteBlock(ctx, 1, fill(7)), v.Flush(ctx), v.Close()); err != nil {
			t.Fatal(err)
		}
		servers[0].start()
		servers[1].stop()
		if _, err := Open(ctx, device(t, fabric, 11), addrs, blocks); !errors.Is(err, ErrStale) {
			t.Fatalf("a volume of a replica that may be old: %v", err)
		}
		servers[0].stop()
		servers[1].start()
		v = open(t, device(t, fabric, 12), addrs)
		b := make([]byte, BlockBytes)
		if err := v.ReadBlock(ctx, 1, b); err != nil || number(t, b) != 7 {
			t.Fatal(err)
		}
		servers[0].start()
	})
}

// A replica has writes that were never flushed, and is away when the other one, which has lost
// them, is opened alone. They never come back, however new they were, and however the replica comes
// back.
func TestLostStaysLost(t *testing.T) {
	for name, mended := range map[string]bool{"found by Open": false, "comes back to an open volume": true} {
		t.Run(name, func(t *testing.T) {
			sim.Test(t, sim.Config{Seed: 1}, func(t *testing.T, fabric *sim.Fabric) {
				servers, addrs := pair(t, fabric)
				ctx := t.Context()
				v := open(t, device(t, fabric, 10), addrs)
				if err := errors.Join(v.WriteBlock(ctx, 1, fill(1)), v.WriteBlock(ctx, 2, fill(1)),
					v.Flush(ctx)); err != nil {
					t.Fatal(err)
				}
				for n := range uint64(20) {
					if err := errors.Join(v.WriteBlock(ctx, 1, fill(2+n)),
						v.WriteBlock(ctx, 2, fill(2+n))); err != nil {
						t.Fatal(err)
					}
				}
				servers[0].stop()
				// The other one is alone now.
				if err := errors.Join(v.WriteBlock(ctx, 3, fill(1)), v.Close()); err != nil {
					t.Fatal(err)
				}
				servers[1].stop()
				servers[1].disk = servers[1].disk.lose()
				servers[1].start()
				v = open(t, device(t, fabric, 11), addrs)
				if err := errors.Join(v.WriteBlock(ctx, 1, fill(100)), v.Flush(ctx)); err != nil {
					t.Fatal(err)
				}
				want := func(v *Volume) {
					t.Helper()
					b := make([]byte, BlockBytes)
					for range 2 {
						for block, n := range []uint64{0, 100, 1} {
							if err := v.ReadBlock(ctx, block, b); err != nil || number(t, b) != n {
								t.Errorf("block %d: %d, want %d, %v", block, number(t, b), n, err)
							}
						}
					}
				}
				want(v)
				if mended {
					servers[0].start()
					inSync(t, v)
					want(v)
				}
				if err := v.Close(); err != nil {
					t.Fatal(err)
				}
				if !mended {
					servers[0].start()
				}
				for last := range byte(2) { // a second time: the first client has flushed what it believed
					v = open(t, device(t, fabric, 12+last), addrs)
					want(v)
					v.Close()
				}
			})
		})
	}
}

// A replica that comes back counts when it has what was flushed in the slots that are kept. Until
// then writes, which go to the other slots, are what it has.
func TestComesBackWhole(t *testing.T) {
	sim.Test(t, sim.Config{Seed: 1}, func(t *testing.T, fabric *sim.Fabric) {
		servers, addrs := pair(t, fabric)
		ctx := t.Context()
		v := open(t, device(t, fabric, 10), addrs)
		servers[0].stop()
		if err := errors.Join(v.WriteBlock(ctx, 1, fill(1)), v.Flush(ctx), v.WriteBlock(ctx, 1, fill(2))); err != nil {
			t.Fatal(err)
		}
		v.flushing.RLock() // as a write that takes long
		servers[0].start()
		sleep(ctx, 5*time.Second)
		if v.InSync() == 2 {
			t.Error("a replica counts that does not have what was flushed")
		}
		v.flushing.RUnlock()
		inSync(t, v)
		kept := superBytes + (1*copies+int(v.blocks[1].flushed))*slotBytes
		for i, s := range servers {
			if n, whole := version(s.disk.lasts[kept:][:slotBytes]); n == 0 || !whole {
				t.Errorf("replica %d has %d, %v on its disk", i, n, whole)
			}
		}
	})
}

// The replica that was alone fails when it is told that it is not any more: its disk may still say
// so, and it would be believed. So the client does not go on with the one that came back.
func TestNeverTwoAlone(t *testing.T) {
	sim.Test(t, sim.Config{Seed: 1}, func(t *testing.T, fabric *sim.Fabric) {
		servers, addrs := pair(t, fabric)
		ctx := t.Context()
		v := open(t, device(t, fabric, 10), addrs)
		servers[0].stop()
		if err := errors.Join(v.WriteBlock(ctx, 1, fill(1)), v.Flush(ctx)); err != nil {
			t.Fatal(err)
		}
		servers[1].disk.refuse = func(d *fakeDisk) bool { return binary.LittleEndian.Uint64(d.memory[8:]) == 0 }
		servers[0].start()
		sleep(ctx, 5*time.Second)
		if err := errors.Join(v.WriteBlock(ctx, 1, fill(2)), v.Flush(ctx)); !errors.Is(err, ErrNoReplica) {
			t.Error("the client goes on:", err)
		}
		v.Close()
		servers[0].stop()
		servers[1].stop()
		servers[1].disk = servers[1].disk.lose()
		servers[1].start()
		v = open(t, device(t, fabric, 11), addrs) // alone, as its disk says
		b := make([]byte, BlockBytes)
		if err := v.ReadBlock(ctx, 1, b); err != nil || number(t, b) != 1 {
			t.Error(number(t, b), err)
		}
		servers[0].start()
	})
}

// Of three replicas one fails after the other. The one that failed second knows that the first one
// is missing, and is not enough without the third.
func TestThreeReplicas(t *testing.T) {
	sim.Test(t, sim.Config{Seed: 1}, func(t *testing.T, fabric *sim.Fabric) {
		servers, addrs := pair(t, fabric)
		third := &server{t: t, device: device(t, fabric, 3), addr: "192.0.2.3:7471", disk: newFakeDisk()}
		third.start()
		t.Cleanup(third.stop)
		servers, addrs = append(servers, third), append(addrs, third.addr)
		ctx := t.Context()
		v := open(t, device(t, fabric, 10), addrs)
		for i := range 2 {
			servers[i].stop()
			if err := errors.Join(v.WriteBlock(ctx, 1, fill(uint64(i+1))), v.Flush(ctx)); err != nil {
				t.Fatal(err)
			}
		}
		v.Close()
		third.stop()
		servers[1].start()
		if _, err := Open(ctx, device(t, fabric, 11), addrs, blocks); !errors.Is(err, ErrStale) {
			t.Errorf("a volume of a replica that may be old: %v", err)
		}
		third.start()
		v = open(t, device(t, fabric, 12), addrs)
		b := make([]byte, BlockBytes)
		for range 2 {
			if err := v.ReadBlock(ctx, 1, b); err != nil || number(t, b) != 2 {
				t.Error(number(t, b), err)
			}
		}
		servers[0].start()
	})
}

// A second client takes the disks from the first, which can write no more.
func TestFencing(t *testing.T) {
	sim.Test(t, sim.Config{Seed: 1}, func(t *testing.T, fabric *sim.Fabric) {
		_, addrs := pair(t, fabric)
		older := open(t, device(t, fabric, 10), addrs)
		ctx := t.Context()
		if err := older.WriteBlock(ctx, 1, fill(1)); err != nil {
			t.Fatal(err)
		}
		older.end() // it does not connect again: it thinks that it is the only one
		newer := open(t, device(t, fabric, 11), addrs)
		if err := newer.WriteBlock(ctx, 1, fill(2)); err != nil {
			t.Fatal(err)
		}
		if err := older.WriteBlock(ctx, 1, fill(3)); err == nil {
			t.Error("an older client has written")
		}
		b := make([]byte, BlockBytes)
		for range 2 {
			if err := newer.ReadBlock(ctx, 1, b); err != nil || number(t, b) != 2 {
				t.Errorf("%d, %v", number(t, b), err)
			}
		}
	})
}

func TestFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "disk")
	d, err := OpenFile(name, blocks)
	if err != nil {
		t.Fatal(err)
	}
	at := superBytes + 5*slotBytes
	slot := d.Bytes()[at : at+slotBytes]
	copy(slot[slotHead:], fill(5))
	seal(slot, 1)
	if err := errors.Join(d.Persist(at, slotBytes), d.Persist(0, len(d.Bytes())), d.Persist(7, 0),
		d.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(name, blocks+1); err == nil {
		t.Error("a file of another size was opened")
	}
	if d, err = OpenFile(name, blocks); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if n, whole := version(d.Bytes()[at : at+slotBytes]); n != 1 || !whole {
		t.Error(n, whole)
	}
}
