package udp

import (
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/sockio"
)

// refusesSegments reports whether an error may be about segmentation rather
// than about the datagram: EIO from drivers without checksum offload, EINVAL
// for too many segments or too long ones, EMSGSIZE for the latter.
func refusesSegments(e unix.Errno) bool {
	return e == unix.EIO || e == unix.EINVAL || e == unix.EMSGSIZE || e == unix.EOPNOTSUPP
}

// sendSingly sends a datagram of the backlog that was refused with
// segmentation packet by packet, as far as the socket has room. If that works,
// segmentation was the matter, and is switched off, or down to the number of
// segments that older kernels take; unless some were too long for the path.
func (t *sender) sendSingly(w *waiting) unix.Errno {
	for w.n > 0 {
		n := min(w.segment, w.n)
		of := t.backlog.of[w.of:]
		pkt := t.backlog.buf[w.off : w.off+n]
		// Each is now the first of its datagram, so its identification is 0.
		w.path.icrc.Renew(pkt)
		switch errno := t.sendOne(w.path, pkt, 0); errno {
		case 0:
			t.stats.Sent(1, 1, n)
			w.done++
		case unix.EAGAIN:
			return unix.EAGAIN
		default:
			t.dropped(of[:1], errno)
			w.long = w.long || errno == unix.EMSGSIZE
		}
		w.off, w.n, w.of = w.off+n, w.n-n, w.of+1
	}
	if w.done == 0 || w.long || !t.gso.Load() {
		return 0
	}
	t.stats.Fallbacks.Add(1)
	if w.packets > sockio.MaxSegmentsOld {
		// Perhaps it was too many; if not, a shorter datagram will tell.
		t.maxSegs = sockio.MaxSegmentsOld
	} else {
		t.gso.Store(false)
	}
	return 0
}

// sendOne sends a datagram from contiguous memory.
func (t *sender) sendOne(p *path, b []byte, segment int) unix.Errno {
	var errno unix.Errno
	o := &t.backlog.one
	o.iov.Base = &b[0]
	o.iov.SetLen(len(b))
	h := &o.hdr[0].Hdr
	h.Name, h.Namelen = p.name.bytes(), p.nameLen
	h.Iov = &o.iov
	h.SetIovlen(1)
	setControl(h, &o.ctl, p, segment)
	for {
		_, errno = t.sendmmsg(p.sock.fd, o.hdr[:])
		t.stats.Calls.Add(1)
		if errno != unix.EINTR {
			break
		}
	}
	o.iov.Base = nil
	return errno
}
