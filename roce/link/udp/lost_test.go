package udp

import (
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// Memory that goes away between the ICRC, which is right, and the system call: the kernel
// cannot read it either.
func TestMemoryLostBeforeTheCall(t *testing.T) {
	for name, o := range map[string]Options{"segmented": {}, "singly": {DisableGSO: true}} {
		t.Run(name, func(t *testing.T) {
			a, b := open(t, loopback(), o), open(t, loopback(), o)
			r := rand.New(rand.NewPCG(1, 2))
			path := linktest.NewPath(a, b)
			page := linktest.LostPage(t)
			gone := page[len(page)/2:]
			require.NoError(t, unix.Mprotect(gone, unix.PROT_READ))
			batch := make([]edge.TxPacket, 6)
			for i := range batch {
				// Each in a datagram of its own, that the third holds one packet.
				batch[i] = linktest.Packet(r, path, 1024+4*i)
			}
			const bad = 2
			batch[bad].Frags[0], batch[bad].NumFrags = gone[:1024+4*bad], 1
			a.tx.Sendmmsg = func(fd int, msgs []sockio.Mmsghdr) (int, unix.Errno) {
				require.NoError(t, unix.Mprotect(gone, unix.PROT_NONE))
				return sockio.Send(fd, msgs)
			}
			addr := linktest.SendLost(t, a, batch)
			require.True(t, batch[bad].Holds(addr))
			a.Send(batch[bad+1:])
			linktest.Await(t, b, append(append([]edge.TxPacket(nil), batch[:bad]...), batch[bad+1:]...))

			// Memory that is back when it is looked at is a packet dropped.
			a.tx.Sendmmsg = func(fd int, msgs []sockio.Mmsghdr) (int, unix.Errno) {
				a.tx.Sendmmsg = sockio.Send
				return 0, unix.EFAULT
			}
			dropped := a.Stats().TxDropped
			a.Send(batch[bad+1:])
			require.Equal(t, dropped+1, a.Stats().TxDropped)
			linktest.Await(t, b, batch[bad+2:])
		})
	}
}
