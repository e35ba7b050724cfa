package ib_test

import (
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
)

// TestVerifyCaptures finds the identification of every captured IPv4 packet,
// with no hint, with the right guess, and with a wrong one.
func TestVerifyCaptures(t *testing.T) {
	found, large := 0, 0
	for _, f := range captures(t) {
		c := f.icrc()
		if f.flow.Src.Is6() {
			if _, m := c.Verify(1234, f.udp); m != ib.MatchExact {
				t.Errorf("%v: IPv6: match %d", f, m)
			}
			continue
		}
		for _, guess := range []uint16{0, f.id ^ 1, f.id + 1, ^f.id} {
			want := ib.MatchSolved
			if guess == f.id {
				want = ib.MatchExact
			}
			if id, m := c.Verify(guess, f.udp); id != f.id || m != want {
				t.Fatalf("%v: guess %d: identification %d, match %d, want %d, %d", f, guess, id, m, f.id, want)
			}
		}
		if id, m := c.Verify(f.id, f.udp); id != f.id || m != ib.MatchExact {
			t.Errorf("%v: right guess: identification %d, match %d", f, id, m)
		}
		found++
		if f.id > 255 {
			large++
		}
	}
	if found < 1000 || large < 1000 {
		t.Errorf("only %d packets, %d with a large identification", found, large)
	}
	t.Log(found, "identifications found")
}

// TestVerifyDF: a packet without DF is told from a corrupt one, and verified
// by the calculator that expects it.
func TestVerifyDF(t *testing.T) {
	f := vectors[0].frame(t)
	with := ib.NewICRC(f.flow)
	without := with.WithoutDF()
	body := f.udp[:len(f.udp)-ib.ICRCBytes]
	b := append([]byte(nil), body...)
	b = append(b, 0, 0, 0, 0)
	ib.PutICRC(b[len(body):], without.Checksum(0xBEEF, body))
	if _, m := with.Verify(0, b); m != ib.Mismatch {
		t.Errorf("a packet without DF: match %d", m)
	}
	if id, flags := ib.SolveIPv4(with.Checksum(0, body)^ib.TrailingICRC(b), len(body)); id != 0xBEEF ||
		flags != 0x4000 {
		t.Errorf("a packet without DF solves to %04x, flags %04x", id, flags)
	}
	if id, m := without.Verify(0, b); id != 0xBEEF || m != ib.MatchSolved {
		t.Errorf("without DF: identification %04x, match %d", id, m)
	}
}

func TestVerifyFlushRxe(t *testing.T) {
	p := distinctPacket(ib.RCFlush)
	for _, v := range []int{0, 6} {
		f := vectors[v].frame(t)
		c := f.icrc()
		b := p.Append(nil, c, 0xABCD)
		if id, m := c.Verify(0xABCD, b); id != 0xABCD || m != ib.MatchExact {
			t.Errorf("ICRC of the specification: %04x, match %d", id, m)
		}
		if _, m := c.VerifyFlushRxe(0xABCD, b); m != ib.Mismatch {
			t.Errorf("ICRC of the specification taken for rxe's: match %d", m)
		}
		ib.PutICRC(b[len(b)-ib.ICRCBytes:], c.ChecksumFlushRxe(0xABCD, b[:len(b)-ib.ICRCBytes]))
		if id, m := c.VerifyFlushRxe(0xABCD, b); id != 0xABCD || m != ib.MatchExact {
			t.Errorf("rxe's ICRC: %04x, match %d", id, m)
		}
		if _, m := c.Verify(0xABCD, b); m != ib.Mismatch {
			t.Errorf("rxe's ICRC taken for that of the specification: match %d", m)
		}
		for n := range ib.BTHBytes + ib.ICRCBytes {
			if id, m := c.VerifyFlushRxe(7, b[:n]); id != 7 || m != ib.Mismatch {
				t.Errorf("%d bytes: %04x, match %d", n, id, m)
			}
		}
		id, m := c.VerifyFlushRxe(0, b)
		if f.flow.Src.Is4() && (id != 0xABCD || m != ib.MatchSolved) {
			t.Errorf("rxe's ICRC, identification unknown: %04x, match %d", id, m)
		}
	}
}

// TestVerifyLengths covers every length up to the longest packet, and longer
// ones, which take another path, with and without a correct ICRC.
func TestVerifyLengths(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	c := vectors[0].frame(t).icrc()
	buf := make([]byte, 65507)
	for i := range buf {
		buf[i] = byte(rng.Uint32())
	}
	step := 1
	for n := ib.BTHBytes; n+ib.ICRCBytes <= len(buf); n += step {
		if n > ib.MaxPacketBytes+64 {
			step = 4001
		}
		id := uint16(rng.Uint32())
		b := append(buf[:n:n], 0, 0, 0, 0)
		ib.PutICRC(b[n:], c.Checksum(id, b[:n]))
		if got, m := c.Verify(^id, b); got != id || m != ib.MatchSolved {
			t.Fatalf("%d bytes: identification %04x, match %d, want %04x", n, got, m, id)
		}
	}
	for n := range ib.BTHBytes + ib.ICRCBytes {
		if _, m := c.Verify(0, buf[:n]); m != ib.Mismatch {
			t.Errorf("%d bytes are a packet", n)
		}
		if _, m := c.VerifyFlushRxe(0, buf[:n]); m != ib.Mismatch {
			t.Errorf("%d bytes are a FLUSH", n)
		}
	}
	if _, flags := ib.SolveIPv4(1, -100); flags == 0 {
		t.Error("a negative length was solved")
	}
}

// rank returns the rank over GF(2) of 32-bit vectors.
func rank(vectors []uint32) int {
	var basis [32]uint32
	n := 0
	for _, v := range vectors {
		for bit := 31; bit >= 0 && v != 0; bit-- {
			if v>>bit&1 == 0 {
				continue
			}
			if basis[bit] == 0 {
				basis[bit] = v
				n++
				v = 0
				break
			}
			v ^= basis[bit]
		}
	}
	return n
}

// solved returns SolveIPv4's answer as one number, flags in the high half.
func solved(diff uint32, n int) uint32 {
	id, flags := ib.SolveIPv4(diff, n)
	return uint32(flags)<<16 | uint32(id)
}

// TestSolveAcceptance measures what the solved check lets through.
//
// For each length the solution is linear and one to one, so that of all 2^32 differences exactly
// 2^16 are accepted. A burst of errors at a given place is accepted if its image has no flags;
// since the image is that of the error carried back to the identification, the place alone matters,
// not the length of the packet.
func TestSolveAcceptance(t *testing.T) {
	seeds.Long(t)
	// One to one, and linear, for several lengths.
	rng := rand.New(rand.NewPCG(9, 10))
	for _, n := range []int{12, 16, 28, 100, 1040, ib.MaxPacketBytes - ib.ICRCBytes} {
		var images []uint32
		for bit := range 32 {
			images = append(images, solved(1<<bit, n))
		}
		if r := rank(images); r != 32 {
			t.Fatalf("%d bytes: the solution has rank %d", n, r)
		}
		a, b := rng.Uint32(), rng.Uint32()
		if solved(a, n)^solved(b, n) != solved(a^b, n) {
			t.Fatalf("%d bytes: the solution is not linear", n)
		}
	}

	// Every burst of up to 8 bits that touches the longest packet, ICRC
	// included. Its image is that of the error in the register at its place,
	// which SolveIPv4 gives for a packet that ends there.
	wantAccepted := []int{1: 0, 2: 0, 3: 0, 4: 4, 5: 4, 6: 5, 7: 18, 8: 16}
	const length = ib.MaxPacketBytes - ib.ICRCBytes
	accepted := make([]int, len(wantAccepted))
	total := make([]int, len(wantAccepted))
	for place := 0; place <= length; place++ {
		var one [32]uint32 // image of bit k of the four bytes at place
		for k := range one {
			one[k] = solved(1<<k, place)
		}
		for width := 1; width < len(wantAccepted); width++ {
			for start := range 8 { // bursts that start in the first of the bytes
				for inner := range 1 << max(0, width-2) {
					pattern := 1 | inner<<1 | 1<<(width-1)
					var image uint32
					for k := range width {
						image ^= one[start+k] & -uint32(pattern>>k&1)
					}
					total[width]++
					if image>>16 == 0 {
						accepted[width]++
					}
				}
			}
		}
	}
	for width, want := range wantAccepted {
		if accepted[width] != want {
			t.Errorf("bursts of %d bits: %d of %d accepted, want %d", width, accepted[width], total[width], want)
		}
	}

	// And random damage to a real packet, end to end: 2^20 times, 2^-16 each.
	f := vectors[0].frame(t)
	c := f.icrc()
	b := append([]byte(nil), f.udp...)
	passed := 0
	const rounds = 1 << 20
	for range rounds {
		copy(b, f.udp)
		for i := range 4 { // 8 random bytes over the 16 of payload
			b[ib.BTHBytes+4*i+rng.IntN(4)] ^= byte(1 + rng.IntN(255))
			b[ib.BTHBytes+4*i+rng.IntN(4)] ^= byte(1 + rng.IntN(255))
		}
		if string(b) == string(f.udp) {
			continue
		}
		if _, m := c.Verify(f.id+1, b); m == ib.MatchSolved {
			passed++
		} else if m == ib.MatchExact {
			t.Fatal("damage and a wrong guess cancelled out: look at this one")
		}
	}
	if mean := rounds >> 16; passed < mean/4 || passed > 3*mean {
		t.Errorf("%d of %d damaged packets accepted, want about %d", passed, rounds, mean)
	}
	t.Logf("%d of %d damaged packets accepted", passed, rounds)
}
