package packet

import (
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/roce/link/linktest"
)

// LoseSockets closes the receiving sockets, as code with a fault elsewhere in the process may.
func (l *Link) LoseSockets() {
	for _, s := range l.rx.socks {
		unix.Close(s.fd)
	}
}

// Inject has the system calls of the link go through f.
func (l *Link) Inject(f *linktest.Faults) {
	l.tx.Sendmmsg, l.rx.reader.Recvmmsg = f.Send, f.Recv
	l.tx.GSO.Store(!l.opts.DisableGSO)
	l.tx.MaxSegs = sockio.MaxSegments
}
