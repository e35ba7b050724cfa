package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
)

const address = "192.0.2.1:7471"

// device makes a host of a fabric.
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

// serve makes a server and returns what ends it.
func serve(t *testing.T, d *verbs.Device, slots int) (s *Server, end func()) {
	s, err := Listen(t.Context(), d, address, slots)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(t.Context()) }()
	return s, sync.OnceFunc(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
}

func TestCache(t *testing.T) {
	sim.Test(t, sim.Config{
		Seed: rand.Uint64(), Faults: sim.Faults{Loss: 0.01},
	}, func(t *testing.T, fabric *sim.Fabric) {
		s, end := serve(t, device(t, fabric, 1), 8)
		defer end()
		cl := Dial(device(t, fabric, 2), address)
		defer cl.Close()
		ctx := t.Context()
		model := map[string]string{}
		for i := range 1000 {
			key := fmt.Sprintf("key %d", rand.N(300))
			switch {
			case i%5 == 0:
				_, has := model[key]
				delete(model, key)
				if err := cl.Delete(ctx, []byte(key)); has && err != nil || !has && !errors.Is(err, ErrNotFound) {
					t.Fatalf("delete %s: %v; it was there: %v", key, err, has)
				}
			case i%2 == 0:
				model[key] = fmt.Sprintf("value %d", i)
				if err := cl.Put(ctx, []byte(key), []byte(model[key])); err != nil {
					t.Fatal(err)
				}
			default:
				value, err := cl.Get(ctx, nil, []byte(key))
				byMessage, errMessage := cl.GetByMessage(ctx, nil, []byte(key))
				if want, has := model[key]; has && (err != nil || string(value) != want) ||
					!has && !errors.Is(err, ErrNotFound) {
					t.Fatalf("get %s: %q, %v; want %q", key, value, err, want)
				}
				if string(byMessage) != string(value) || (err == nil) != (errMessage == nil) {
					t.Fatalf("get %s by message: %q, %v; by READ %q, %v", key, byMessage, errMessage, value, err)
				}
			}
		}
		st := s.Stats()
		if st.Entries != len(model) || st.Grown == 0 {
			t.Errorf("%+v; the model has %d entries", st, len(model))
		}
		if most := s.now.mr.Len(); st.Bytes != most {
			t.Errorf("%d bytes are held, the table has %d: old tables were not given back", st.Bytes, most)
		}
	})
}

// Readers see only values that were written whole while others write them, and while the table
// grows.
func TestReadersAndWriters(t *testing.T) {
	sim.Test(t, sim.Config{
		Seed: rand.Uint64(), Faults: sim.Faults{Loss: 0.005, Duplicate: 0.01},
	}, func(t *testing.T, fabric *sim.Fabric) {
		s, end := serve(t, device(t, fabric, 1), 4)
		defer end()
		ctx := t.Context()
		var wait sync.WaitGroup
		for i := range byte(5) {
			d := device(t, fabric, 2+i)
			wait.Go(func() {
				cl := Dial(d, address)
				defer cl.Close()
				for n := range 200 {
					key := fmt.Appendf(nil, "key %d", n%20)
					if i < 2 {
						// A value is one byte, many times: half of one and half of another is seen
						// at once.
						value := make([]byte, 100+rand.N(100))
						for j := range value {
							value[j] = byte(n)
						}
						err := cl.Put(ctx, key, value)
						if err == nil {
							err = cl.Put(ctx, fmt.Appendf(nil, "more of %d, %d", i, n), value[:10])
						}
						if err != nil {
							t.Error(err)
							return
						}
						continue
					}
					value, err := cl.Get(ctx, nil, key)
					if err != nil && !errors.Is(err, ErrNotFound) {
						t.Error(err)
						return
					}
					for _, b := range value {
						if b != value[0] {
							t.Errorf("a torn value: %v", value)
							return
						}
					}
				}
			})
		}
		wait.Wait()
		if st := s.Stats(); st.Entries != 420 || st.Grown < 3 || st.Gets != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A client that sleeps while the table grows finds its way, and so does one whose server was
// started again.
func TestMovedAndRestarted(t *testing.T) {
	sim.Test(t, sim.Config{Seed: rand.Uint64()}, func(t *testing.T, fabric *sim.Fabric) {
		host := device(t, fabric, 1)
		s, end := serve(t, host, 1)
		sleeper, writer := Dial(device(t, fabric, 2), address), Dial(device(t, fabric, 3), address)
		defer sleeper.Close()
		defer writer.Close()
		ctx := t.Context()
		put := func(n int) {
			for i := range n {
				if err := writer.Put(ctx, fmt.Appendf(nil, "key %d", i), []byte("value")); err != nil {
					t.Fatal(err)
				}
			}
		}
		get := func(cl *Client) {
			t.Helper()
			if v, err := cl.Get(ctx, nil, []byte("key 0")); err != nil || string(v) != "value" {
				t.Fatalf("%q, %v", v, err)
			}
		}
		put(1)
		get(sleeper)
		put(100) // the sleeper's table has gone, and its key goes when the patience of the server ends
		pause, cancel := context.WithTimeout(ctx, 2*patience)
		<-pause.Done()
		cancel()
		get(sleeper)
		if st := s.Stats(); st.Bytes != s.now.mr.Len() {
			t.Errorf("%d bytes are held, the table has %d", st.Bytes, s.now.mr.Len())
		}
		end()
		if _, err := sleeper.Get(ctx, nil, []byte("key 0")); err == nil {
			t.Error("a value of a server that is gone")
		}
		_, end = serve(t, host, 1)
		defer end()
		if _, err := sleeper.Get(ctx, nil, []byte("key 0")); !errors.Is(err, ErrNotFound) {
			t.Errorf("a new server has what the old one had: %v", err)
		}
		var err error
		for range 2 { // the connection to the old one may be noticed now
			if err = writer.Put(ctx, []byte("key 0"), []byte("value")); err == nil {
				break
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		get(sleeper)
		get(writer)
	})
}

// What is no request is refused, and the connection goes on.
func TestBadRequests(t *testing.T) {
	sim.Test(t, sim.Config{Seed: 1}, func(t *testing.T, fabric *sim.Fabric) {
		_, end := serve(t, device(t, fabric, 1), 1)
		defer end()
		d := roce.Dialer{ConnConfig: roce.ConnConfig{Device: device(t, fabric, 2)}}
		c, err := d.Dial(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, request := range []string{"", "p", "p\x00", "p\x00\x00", "p\x00\x09short", "p\xff\xff", "x",
			"p\x00\x01" + string(make([]byte, MaxEntry+1))} {
			if err := c.Send(t.Context(), []byte(request)); err != nil {
				t.Fatal(err)
			}
			var answer [100]byte
			if n, err := c.Recv(t.Context(), answer[:]); err != nil || n != 1 || answer[0] != refused {
				t.Errorf("%q: %q, %v", request, answer[:n], err)
			}
		}
		cl := Dial(device(t, fabric, 3), address)
		defer cl.Close()
		if err := cl.Put(t.Context(), []byte("key"), make([]byte, MaxEntry)); !errors.Is(err, ErrTooLong) {
			t.Error(err)
		}
	})
}

// What a table takes: entries fill a twelfth of it or more, and nearly all are in their first home.
func TestLoad(t *testing.T) {
	sim.Test(t, sim.Config{Seed: 1}, func(t *testing.T, fabric *sim.Fabric) {
		s, end := serve(t, device(t, fabric, 1), 1)
		defer end()
		s.seed = 1 // by another one it may be half or twice the size
		const n = 20000
		first := 0
		for i := range n {
			if err := s.put(fmt.Appendf(nil, "key %d", i), nil); err != nil {
				t.Fatal(err)
			}
		}
		for i := range n {
			key := fmt.Appendf(nil, "key %d", i)
			if _, found, _ := find(s.now.slots(homes(s.seed, key, s.now.homes)[0]), key); found {
				first++
			}
		}
		slots := s.now.mr.Len() / SlotBytes
		t.Logf("%d of %d slots, %d in their first home", n, slots, first)
		if n*12 < slots || first < n*95/100 {
			t.Errorf("%d of %d slots, %d in their first home", n, slots, first)
		}
	})
}

// Keys that were chosen to meet are refused, before the table takes all memory.
func TestKeysThatMeet(t *testing.T) {
	sim.Test(t, sim.Config{Seed: 1}, func(t *testing.T, fabric *sim.Fabric) {
		s, end := serve(t, device(t, fabric, 1), 1)
		defer end()
		cl := Dial(device(t, fabric, 2), address)
		defer cl.Close()
		put := 0
		for i := 0; put <= reach; i++ {
			key := fmt.Appendf(nil, "key %d", i)
			if homes(s.seed, key, 128) != [choices]int{} {
				continue
			}
			put++
			if err := cl.Put(t.Context(), key, nil); (err != nil) != (put > reach) {
				t.Fatalf("key %d with one home: %v", put, err)
			}
		}
		if most := sparse * (reach + 1 + reach) * SlotBytes; s.Stats().Bytes > most {
			t.Errorf("the table has %d bytes", s.Stats().Bytes)
		}
		other := []byte("other 0")
		for i := 1; homes(s.seed, other, s.now.homes)[0] != s.now.homes/2; i++ {
			other = fmt.Appendf(nil, "other %d", i)
		}
		if err := cl.Put(t.Context(), other, nil); err != nil {
			t.Error(err)
		}
	})
}

func FuzzDecodeSlot(f *testing.F) {
	var slot [SlotBytes]byte
	encodeSlot(slot[:], 3, []byte("key"), []byte("value"))
	f.Add(slot[:])
	f.Fuzz(func(t *testing.T, b []byte) {
		var slot [SlotBytes]byte
		copy(slot[:], b)
		if k, v, state := decodeSlot(slot[:]); state == slotEntry && (len(k) == 0 || len(k)+len(v) > MaxEntry) {
			t.Fatal(len(k), len(v))
		}
	})
}
