package packet

import "golang.org/x/sys/unix"

// LoseSockets closes the receiving sockets, as code with a fault elsewhere in the
// process may.
func (l *Link) LoseSockets() {
	for _, s := range l.rx.socks {
		unix.Close(s.fd)
	}
}
