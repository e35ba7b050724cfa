package matrix

import (
	"errors"
	"slices"

	"github.com/goroce/goroce/conformance/lab/wire"
	"github.com/goroce/goroce/conformance/peer"
)

// Requests that the responder must refuse because of what they address.

func wrongKey(op peer.Opcode) func(x *trial) (string, error) {
	return func(x *trial) (string, error) {
		seed := x.nextSeed()
		if err := x.rsp.arena.Fill(0, 4*guard, seed, 0); err != nil {
			return "", err
		}
		wr := x.wr(op, 1, 64)
		wr.RKey ^= 0x5a // another generation of the same key
		if err := x.rq.PostSend(wr); err != nil {
			return "", err
		}
		wc, err := x.fails(1, peer.RemAccessErr)
		if err != nil {
			return "", err
		}
		return wc.Status.String(), x.untouched(seed)
	}
}

func beyondEnd(x *trial) (string, error) {
	wr := x.wr(peer.OpWrite, 1, 64)
	wr.RemoteAddr = x.rsp.arena.Addr() + uint64(x.rsp.arena.Len()) - 63
	if err := x.rq.PostSend(wr); err != nil {
		return "", err
	}
	wc, err := x.fails(1, peer.RemAccessErr)
	return wc.Status.String(), err
}

func noPermission(x *trial) (string, error) {
	mr, err := x.rsp.s.MR(4096, peer.AccessLocalWrite|peer.AccessRemoteRead)
	if err != nil {
		return "", err
	}
	defer mr.Dereg()
	wr := x.wr(peer.OpWrite, 1, 64)
	wr.RemoteAddr, wr.RKey = mr.Addr(), mr.RKey()
	if err := x.rq.PostSend(wr); err != nil {
		return "", err
	}
	wc, err := x.fails(1, peer.RemAccessErr)
	if err != nil {
		return "", err
	}
	b, err := mr.Read(0, 64)
	if err == nil && !slices.Equal(b, make([]byte, 64)) {
		err = errors.New("a region without remote write permission was written")
	}
	return wc.Status.String(), err
}

func misalignedAtomic(x *trial) (string, error) {
	// The address is changed on the way, because libraries refuse to post such a request.
	const vaLow = 7 // the last byte of the AtomicETH's address
	hit := x.rule(&wire.Rule{Match: x.target(reqOnly, 8), Kind: wire.Rewrite, Edit: func(p *wire.Packet) { p.Body()[vaLow] |= 4 }})
	if err := x.post(peer.OpFetchAdd, 1, 8); err != nil {
		return "", err
	}
	wc, err := x.fails(1, peer.RemInvReqErr)
	if err == nil && hit.Hits() != 1 {
		err = errors.New("no request was changed")
	}
	return wc.Status.String(), err
}
