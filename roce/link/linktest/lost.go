package linktest

import (
	"math/rand/v2"
	"os"
	"runtime/debug"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// LostPage returns two pages of mapped memory of which the second cannot be touched.
func LostPage(t testing.TB) []byte {
	t.Helper()
	page := os.Getpagesize()
	b, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(b)) })
	require.NoError(t, unix.Mprotect(b[page:], unix.PROT_NONE))
	return b
}

// SendLost sends packets, one of which has an inaccessible payload, and returns the address that
// the panic gave.
func SendLost(t testing.TB, l link.Link, batch []edge.TxPacket) (addr uint64) {
	t.Helper()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		var ok bool
		addr, ok = mem.FaultAddr(recover())
		require.True(t, ok, "no panic for the memory")
	}()
	l.Send(batch)
	return 0
}

// A packet in the middle of a batch whose payload is not there costs that packet, and the
// link goes on.
func testLostMemory(t *testing.T, p Pair) {
	r := rand.New(rand.NewPCG(12, 1))
	page, path := LostPage(t), NewPath(p.A, p.B)
	other := NewPath(p.A, p.B) // of another queue pair; what leaves shares datagrams
	for i, n := range []int{8, p.maxPayload(), 8, p.maxPayload()} {
		batch := make([]edge.TxPacket, 20)
		for k := range batch {
			batch[k] = Packet(r, path, n)
			if i >= 2 && k%3 == 0 {
				batch[k].Path = other
			}
		}
		const bad = 7
		lost := &batch[bad]
		lost.NumFrags = 1
		lost.Frags[0] = page[len(page)/2-4 : len(page)/2-4+n]
		addr := SendLost(t, p.A, batch)
		require.True(t, lost.Holds(addr))
		for i := range batch {
			require.Equal(t, i == bad, batch[i].Holds(addr))
		}
		p.A.Send(batch[bad+1:])
		Drive(t, p.A, func() bool { return !p.A.Blocked() }) // with few frames some of it waits for the kernel
		Await(t, p.B, append(append([]edge.TxPacket(nil), batch[:bad]...), batch[bad+1:]...))
	}
}
