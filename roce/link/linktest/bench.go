package linktest

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
)

// The benchmarks drive both ends from one thread and report its CPU time, with
// the kernel's part, so that they say something on a machine that does other
// things, too. They know nothing of the wake-ups of two threads.

// cpuNs returns the CPU time of the thread.
func cpuNs(b *testing.B) int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return t.Nano()
}

// BenchmarkRoundTrip measures the CPU time of half a round trip of a packet with
// 64 bytes between two links that do not block, "cpu-ns/half".
func BenchmarkRoundTrip(b *testing.B, a, z link.Link) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := rand.New(rand.NewPCG(1, 1))
	to, back := []edge.TxPacket{Packet(r, NewPath(a, z), 64)}, []edge.TxPacket{Packet(r, NewPath(z, a), 64)}
	rx := make([]edge.RxPacket, 16)
	pass := func(from, at link.Link, batch []edge.TxPacket) {
		from.Send(batch)
		for {
			if from.Blocked() {
				from.Send(nil)
			}
			if n, err := at.Recv(rx); err != nil || n > 0 {
				return
			}
		}
	}
	for range 100 { // neighbours, caches
		pass(a, z, to)
		pass(z, a, back)
	}
	start := cpuNs(b)
	for b.Loop() {
		pass(a, z, to)
		pass(z, a, back)
	}
	b.ReportMetric(float64(cpuNs(b)-start)/float64(b.N)/2, "cpu-ns/half")
}

// BenchmarkBulk measures the CPU time of packets of size bytes that are sent
// 60 KiB at a time, "cpu-ns/KB".
func BenchmarkBulk(b *testing.B, a, z link.Link, size int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := rand.New(rand.NewPCG(1, 1))
	path := NewPath(a, z)
	batch := make([]edge.TxPacket, max(1, (60<<10)/(size+100)))
	for i := range batch {
		batch[i] = Packet(r, path, size)
		batch[i].Frags[0], batch[i].NumFrags = make([]byte, size), 1
	}
	rx := make([]edge.RxPacket, 64)
	round := func() {
		a.Send(batch)
		for got := 0; got < len(batch); {
			if a.Blocked() {
				a.Send(nil)
			}
			n, err := z.Recv(rx)
			if err != nil {
				b.Fatal(err)
			}
			got += n
		}
	}
	for range 20 {
		round()
	}
	start := cpuNs(b)
	for b.Loop() {
		round()
	}
	b.ReportMetric(float64(cpuNs(b)-start)/float64(b.N)/float64(size*len(batch))*1e3, "cpu-ns/KB")
}
