package sim

import (
	"fmt"
	"hash/crc32"
)

// transcript sums up what has happened on a fabric whose goroutines take turns.
type transcript struct {
	sum     uint64
	packets uint64
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// note records that a packet was sent or arrives. mu is held.
func (f *Fabric) note(what byte, p *packet) {
	if f.clock == nil {
		return
	}
	t := &f.transcript
	t.packets++
	src, dst := p.src.Src.As16(), p.src.Dst.As16()
	sum := crc32.Update(0, castagnoli, src[:])
	sum = crc32.Update(sum, castagnoli, dst[:])
	sum = crc32.Update(sum, castagnoli, p.data)
	t.mix(uint64(f.now))
	t.mix(uint64(what)<<48 | uint64(p.tclass)<<40 | uint64(p.ttl)<<32 | uint64(sum))
	t.mix(uint64(p.src.SrcPort)<<32 | uint64(len(p.data)))
}

// mix mixes in a word: FNV-1a with words for bytes, and with the high bits, which depend on
// everything, folded down.
func (t *transcript) mix(x uint64) {
	t.sum = (t.sum ^ x) * 0x100000001B3
	t.sum ^= t.sum >> 32
}

// Transcript returns the virtual time, how often a packet was sent or arrived, and a hash of all
// these packets and their times. Runs of a [Test] that do the same have equal transcripts. It is
// kept in a Test only.
func (f *Fabric) Transcript() string {
	f.lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("%d ns, %d packets, %016x", f.now, f.transcript.packets, f.transcript.sum)
}
