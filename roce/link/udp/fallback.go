package udp

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"golang.org/x/sys/unix"
)

// refusesSegments reports whether an error may be about segmentation rather
// than about the datagram: EIO from drivers without checksum offload, EINVAL
// for too many segments or too long ones, EMSGSIZE for the latter.
func refusesSegments(e unix.Errno) bool {
	return e == unix.EIO || e == unix.EINVAL || e == unix.EMSGSIZE || e == unix.EOPNOTSUPP
}

// sendSingly sends a datagram that was refused with segmentation packet by
// packet. If that works, segmentation was the matter, and is switched off, or
// down to the number of segments that older kernels take.
func (t *sender) sendSingly(p *path, b []byte, segment int) {
	count := (len(b) + segment - 1) / segment
	ok := 0
	for len(b) > 0 {
		n := min(segment, len(b))
		pkt := b[:n]
		// Each is now the first of its datagram, so its identification is 0.
		body := pkt[:n-ib.ICRCBytes]
		if t.l.opts.RxeFlush && ib.Opcode(body[0]) == ib.RCFlush {
			ib.PutICRC(pkt[len(body):], p.icrc.ChecksumFlushRxe(0, body))
		} else {
			ib.PutICRC(pkt[len(body):], p.icrc.Checksum(0, body))
		}
		switch errno := t.sendOne(p, pkt, 0); errno {
		case 0:
			t.sent(1, n)
			ok++
		default:
			t.stats.dropped.Add(1)
		}
		b = b[n:]
	}
	if ok == 0 {
		return
	}
	t.stats.fallbacks.Add(1)
	if count > sockio.MaxSegmentsOld && t.maxSegs > sockio.MaxSegmentsOld {
		t.maxSegs = sockio.MaxSegmentsOld
		return
	}
	t.gso.Store(false)
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
		_, errno = sockio.Send(p.sock.fd, o.hdr[:])
		t.stats.calls.Add(1)
		if errno != unix.EINTR {
			break
		}
	}
	o.iov.Base = nil
	return errno
}
