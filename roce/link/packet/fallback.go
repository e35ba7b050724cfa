package packet

import (
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/transport/wire"
)

// refusesSegments reports whether an error may be about segmentation rather
// than about the frame: EINVAL for a virtio header that the kernel does not
// take, EIO from drivers, EMSGSIZE for frames that are too long.
func refusesSegments(e unix.Errno) bool {
	return e == unix.EIO || e == unix.EINVAL || e == unix.EMSGSIZE || e == unix.EOPNOTSUPP
}

// sendSingly sends what was refused with segmentation packet by packet. If
// that works, segmentation was the matter, and is switched off, or down to the
// number of segments that older kernels take.
func (t *sender) sendSingly(p *path, of []*wire.Path, b []byte, segment int) {
	count := (len(b) + segment - 1) / segment
	ok, long := 0, false
	for len(b) > 0 {
		n := min(segment, len(b))
		pkt := b[:n]
		b = b[n:]
		one := of[:1]
		of = of[1:]
		// Each now is in a frame of its own, with identification 0.
		p.ICRC.Renew(pkt)
		if errno := t.sendOne(p, pkt, 0); errno != 0 {
			t.lost(one, errno)
			long = long || errno == unix.EMSGSIZE
			continue
		}
		t.stats.Sent(1, 1, n)
		ok++
	}
	if ok == 0 || long {
		return // the length of the packets was the matter
	}
	t.stats.Fallbacks.Add(1)
	if count > sockio.MaxSegmentsOld && t.maxSegs > sockio.MaxSegmentsOld {
		t.maxSegs = sockio.MaxSegmentsOld
		return
	}
	t.gso.Store(false)
}
