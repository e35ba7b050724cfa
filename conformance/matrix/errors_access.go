package matrix

import (
	"errors"
	"slices"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/peer"
)

// Requests that the responder must refuse because of what they address.

// refused posts a request, which must fail.
func (x *trial) refused(wr peer.SendWR, want ...peer.Status) string {
	x.postWR(wr)
	return x.fails(wr.ID, want...).Status.String()
}

func wrongKey(op peer.Opcode) func(x *trial) string {
	return func(x *trial) string {
		seed := x.nextSeed()
		peer.Must(x.rsp.arena.Fill(0, 4*guard, seed, 0))
		wr := x.wr(op, 1, 64)
		wr.RKey ^= 0x5a // another generation of the same key
		status := x.refused(wr, peer.RemAccessErr)
		x.untouched(seed)
		return status
	}
}

func beyondEnd(x *trial) string {
	wr := x.wr(peer.OpWrite, 1, 64)
	wr.RemoteAddr = x.rsp.arena.Addr() + uint64(x.rsp.arena.Len()) - 63
	return x.refused(wr, peer.RemAccessErr)
}

func noPermission(x *trial) string {
	mr := peer.Got(x.rsp.s.MR(4096, peer.AccessLocalWrite|peer.AccessRemoteRead))
	defer mr.Dereg()
	wr := x.wr(peer.OpWrite, 1, 64)
	wr.RemoteAddr, wr.RKey = mr.Addr(), mr.RKey()
	status := x.refused(wr, peer.RemAccessErr)
	if !slices.Equal(peer.Got(mr.Read(0, 64)), make([]byte, 64)) {
		peer.Must(errors.New("a region without remote write permission was written"))
	}
	return status
}

func misalignedAtomic(x *trial) string {
	// The address is changed on the way, because libraries refuse to post such a request.
	const vaLow = 7 // the last byte of the AtomicETH's address
	hit := x.rule(&ether.Rule{
		Match: x.target(reqOnly, 8), Kind: ether.Rewrite, Edit: func(p *ether.Packet) { p.Body()[vaLow] |= 4 },
	})
	status := x.refused(x.wr(peer.OpFetchAdd, 1, 8), peer.RemInvReqErr)
	x.acted(hit, 1, "requests that were changed")
	return status
}
