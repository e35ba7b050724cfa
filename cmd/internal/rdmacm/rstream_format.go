package rdmacm

import (
	"fmt"
	"io"
	"time"
)

// Size formats a number of bytes as the originals do: one fractional digit below ten of a unit.
func sizeText(n int64) string {
	unit, mag := int64(1), ""
	switch {
	case n >= 1<<30:
		unit, mag = 1<<30, "g"
	case n >= 1<<20:
		unit, mag = 1<<20, "m"
	case n >= 1<<10:
		unit, mag = 1<<10, "k"
	}
	if n/unit < 10 {
		if f := n % unit * 10 / unit; f != 0 {
			return fmt.Sprintf("%d.%d%s", n/unit, f, mag)
		}
	}
	return fmt.Sprintf("%d%s", n/unit, mag)
}

// Count formats a number of things as the originals do.
func countText(n int) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%db", n/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%dm", n/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%dk", n/1e3)
	}
	return fmt.Sprint(n)
}

// streamTest is one line of the table.
type streamTest struct {
	Name       string
	Size       int // bytes of a transfer
	Transfers  int // in one direction before the other has its turn
	Iterations int
}

// sizes of the tests: those of every run, and with all those between.
func streamSizes(all bool) []int {
	if !all {
		return []int{1 << 6, 1 << 12, 1 << 16, 1 << 20}
	}
	s := []int{1 << 6}
	for e := 7; e <= 22; e++ {
		s = append(s, 1<<e, 1<<e+1<<(e-1))
	}
	return s
}

// repeats is how often a transfer of a size is measured.
func streamRepeats(size int) int {
	switch {
	case size >= 1<<20:
		return 100
	case size >= 1<<16:
		return 1000
	case size >= 1<<10:
		return 10000
	}
	return 100000
}

// testName is a size and what is measured; the originals have room for nine characters.
func streamTestName(size int, suffix string) string {
	s := sizeText(int64(size))
	return s[:min(4, len(s))] + suffix
}

func latencyTest(size int) streamTest {
	return streamTest{streamTestName(size, "_lat"), size, 1, streamRepeats(size)}
}
func throughputTest(size int) streamTest {
	return streamTest{streamTestName(size, "_bw"), size, streamRepeats(size), 1}
}

// header prints the head of the table.
func streamHeader(w io.Writer) {
	fmt.Fprintf(w, "%-10s%-8s%-8s%-8s%-8s%8s %10s%13s\n", "name", "bytes", "xfers", "iters", "total", "time",
		"Gb/sec", "usec/xfer")
}

// row prints a line of the table.
func (t *streamTest) row(w io.Writer, elapsed time.Duration) {
	bytes := int64(t.Iterations) * int64(t.Transfers) * int64(t.Size) * 2
	usec := max(float64(elapsed)/1e3, 1e-3)
	fmt.Fprintf(w, "%-10s%-8s%-8s%-8s%-8s%8.2fs%10.2f%11.2f\n", t.Name, sizeText(int64(t.Size)),
		countText(t.Transfers), countText(t.Iterations), sizeText(bytes), usec/1e6,
		float64(bytes)*8/(1000*usec), usec/float64(t.Iterations)/float64(t.Transfers*2))
}

// streamPattern is what -T verify sends and looks for: bytes that count, without end
// over all transfers of a direction.
type streamPattern struct {
	next  byte
	total int64
}

// Fill fills b.
func (p *streamPattern) Fill(b []byte) {
	for i := range b {
		b[i] = p.next
		p.next++
	}
}

// Check compares b.
func (p *streamPattern) Check(b []byte) error {
	for i := range b {
		if b[i] != p.next {
			return fmt.Errorf("data verification failed byte %d", p.total)
		}
		p.next++
		p.total++
	}
	return nil
}
