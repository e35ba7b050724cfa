package ether

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func parse(t *testing.T, text string) *RuleText {
	t.Helper()
	r, err := ParseRule(text, []string{"a", "b"}, rand.New(rand.NewPCG(1, 0)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Rules as text choose the packets that they name.
func TestParsedRules(t *testing.T) {
	for _, c := range []struct {
		text           string
		send, want     []uint32
		matched, acted int
	}{
		{"drop", []uint32{1, 2}, []uint32{2}, 2, 1},
		{"drop times=all", []uint32{1, 2}, nil, 2, 2},
		{"drop psn=5", []uint32{4, 5, 5}, []uint32{4, 5}, 2, 1},
		{"drop psn=5 nth=2", []uint32{4, 5, 5}, []uint32{4, 5}, 2, 1},
		{"drop psn=0xfffffe-1 times=all", []uint32{0xfffffd, 0xfffffe, 0xffffff, 0, 1, 2}, []uint32{0xfffffd, 2}, 4, 4},
		{"drop psn=2-3 nth=2 times=1", []uint32{1, 2, 3, 3}, []uint32{1, 2, 3}, 3, 1},
		{"drop qp=0x11 psn=1", []uint32{1, 2}, []uint32{2}, 1, 1},
		{"drop qp=0x12 psn=1", []uint32{1, 2}, []uint32{1, 2}, 0, 0},
		{"drop qp=0", []uint32{1}, []uint32{1}, 0, 0},
		{"drop from=b", []uint32{1}, []uint32{1}, 0, 0},
		{"drop from=a src=10.77.0.2 dst=10.77.0.3", []uint32{1}, nil, 1, 1},
		{"drop src=::ffff:10.77.0.3", []uint32{1}, []uint32{1}, 0, 0},
		{"drop op=ack,nak,cnp,read,response,atomic,flush,ud,cm,write,0x05", []uint32{1}, []uint32{1}, 0, 0},
		{"drop op=cnp,send", []uint32{1}, nil, 1, 1},
		{"drop op=4", []uint32{1}, nil, 1, 1},
		{"drop every=3", []uint32{1, 2, 3, 4, 5, 6, 7}, []uint32{1, 2, 4, 5, 7}, 7, 2},
		{"drop every=2 times=1", []uint32{1, 2, 3, 4}, []uint32{1, 3, 4}, 4, 1},
		{"drop share=100%", []uint32{1, 2}, nil, 2, 2},
		{"observe", []uint32{1, 2}, []uint32{1, 2}, 2, 2},
		{"duplicate psn=1 copies=2", []uint32{1, 2}, []uint32{1, 1, 1, 2}, 1, 1},
		{"reorder psn=1 behind=2", []uint32{1, 2, 3, 4}, []uint32{2, 3, 1, 4}, 1, 1},
	} {
		t.Run(c.text, func(t *testing.T) {
			s := New()
			defer s.Close()
			var got []uint32
			a, _ := s.AttachFunc("a", func([]byte) {})
			_, _ = s.AttachFunc("b", func(f []byte) {
				p, _ := Decode(f)
				got = append(got, p.PSN)
			})
			r := parse(t, c.text)
			s.Add(r.Rule)
			for _, psn := range c.send {
				a.Enter(frame(t, psn))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if int(r.Matched()) != c.matched || r.Hits() != c.acted {
				t.Errorf("matched %d, acted %d; want %d, %d", r.Matched(), r.Hits(), c.matched, c.acted)
			}
		})
	}
}

// The same seed chooses the same packets.
func TestShareRepeats(t *testing.T) {
	k, _ := Decode(frame(t, 1))
	draw := func(seed uint64) (hits []bool) {
		r, err := ParseRule("mark-ce share=20%", nil, rand.New(rand.NewPCG(seed, 0)))
		if err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			hits = append(hits, r.wants("a", k))
		}
		if n := r.Hits(); n < 130 || n > 270 || r.Matched() != 1000 {
			t.Errorf("seed %d: %d of %d", seed, n, r.Matched())
		}
		return hits
	}
	if !slices.Equal(draw(7), draw(7)) || slices.Equal(draw(7), draw(8)) {
		t.Error("the seed does not decide")
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"", "eat", "drop psn", "drop psn=", "drop psn=1 psn=2", "drop psn=0x1000000", "drop psn=1-x",
		"drop qp=-1", "drop qp=x", "drop from=c", "drop src=x", "drop op=nonsense", "drop op=256", "drop nth=0",
		"drop times=0", "drop share=0", "drop share=2", "drop share=x", "drop share=1% every=2", "drop every=0",
		"drop copies=1", "drop time=1ms", "drop behind=1", "drop byte=1", "drop xor=1", "delay",
		"delay time=0s", "delay time=2m", "delay time=x", "corrupt xor=0", "corrupt xor=256",
		"duplicate copies=0", "reorder behind=0", "drop color=red", "drop nth=x",
	} {
		if _, err := ParseRule(text, []string{"a", "b"}, nil); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// Any text is a rule or an error, and a rule can be applied.
func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"drop psn=1-5 op=send,0x04", "delay time=5ms share=1%",
		"corrupt byte=-5 xor=3 every=2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := ParseRule(text, []string{"a"}, rand.New(rand.NewPCG(1, 0))); err == nil {
			k, _ := Decode(frame(t, 1))
			if r.wants("a", k) && r.Kind == Corrupt {
				r.corrupt(k)
			}
		}
	})
}

// Packets that are delayed alike stay in order, and come after the time.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		var got []uint32
		var at []time.Duration
		a, _ := s.AttachFunc("a", func([]byte) {})
		if _, err := s.AttachFunc("b", func(f []byte) {
			p, _ := Decode(f)
			got, at = append(got, p.PSN), append(at, s.Now())
		}); err != nil {
			t.Fatal(err)
		}
		tr := s.Trace(nil)
		s.Add(parse(t, "delay time=5ms times=all psn=1-99").Rule)
		for psn := uint32(1); psn < 100; psn++ {
			a.Enter(frame(t, psn))
		}
		a.Enter(frame(t, 100)) // overtakes them
		time.Sleep(6 * time.Millisecond)
		synctest.Wait()
		if len(got) != 100 || got[0] != 100 || !slices.IsSorted(got[1:]) || at[1] < 5*time.Millisecond {
			t.Errorf("%v at %v", got, at)
		}
		if e := tr.Events(); len(e) != 199 || e[0].Fate != "delay" || e[0].Delivered() || e[198].Fate != "release" {
			t.Errorf("%d events", len(e))
		}
		if s.late != 0 {
			t.Errorf("%d are delayed still", s.late)
		}
		// The end takes what is delayed with it.
		a.Enter(frame(t, 1))
		s.Close()
		time.Sleep(6 * time.Millisecond)
		synctest.Wait()
		if len(got) != 100 {
			t.Error("a packet came after the end")
		}
	})
}

// More than can be delayed is lost, and counted.
func TestDelayHasABound(t *testing.T) {
	s := New()
	defer s.Close()
	a, _ := s.AttachFunc("a", func([]byte) {})
	r := parse(t, "delay time=1m times=all").Rule
	s.Add(r)
	f := frame(t, 1)
	for range maxLate + 3 {
		a.Enter(f)
	}
	if n := a.Stats().Overflow; n != 3 || len(r.late) != maxLate {
		t.Errorf("%d too many, %d delayed", n, len(r.late))
	}
	for _, h := range r.late {
		h.timer.Stop()
	}
}

// RoCE with VLAN tags is RoCE.
func TestTagged(t *testing.T) {
	plain, _ := Decode(frame(t, 7))
	for _, tags := range [][]byte{{0x81, 0, 0, 7}, {0x88, 0xa8, 0, 9, 0x81, 0, 0, 7}} {
		f := frame(t, 7)
		p, ok := Decode(slices.Concat(f[:12], tags, f[12:]))
		if !ok || p.PSN != 7 || !p.ICRCValid() || p.Src != plain.Src || !slices.Equal(p.BTH(), plain.BTH()) {
			t.Fatalf("%v, %v", p, ok)
		}
		p.MarkCE()
		if q, ok := Decode(p.Frame); !ok || q.ECN != 3 || !q.ICRCValid() {
			t.Fatal("marked")
		}
		for n := range len(p.Frame) {
			Decode(p.Frame[:n])
		}
	}
}
