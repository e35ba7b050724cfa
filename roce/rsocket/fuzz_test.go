package rsocket

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"testing"
)

func FuzzConnData(f *testing.F) {
	good, _ := hex.DecodeString(connDataText)
	f.Add(good)
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := parseConnData(b)
		if err != nil {
			return
		}
		var again [connDataBytes]byte
		d.put(&again)
		e, err := parseConnData(again[:])
		if err != nil || e != d {
			t.Fatalf("%+v came back as %+v, %v", d, e, err)
		}
		// A connection with whatever the peer says has sane state.
		var s stream
		s.init(Config{}.normal().stream(), d, place{half: 1000})
		var m message
		for s.update(&m) {
		}
		if k := s.snd.data(1000); k > 0 {
			s.data(k, &m)
		}
	})
}

// FuzzStream lets a hostile peer send any immediates with any lengths, write anything into our
// lists, and acknowledge or not, while the application does what it can. Whatever happens, the
// state stays sound: what is read lies in the receive buffer, what is sent in the send buffer.
func FuzzStream(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1, 1, 2, 3, 4, 5})
	seq := []byte{}
	for _, imm := range []uint32{0x80000180, 100, 0x80000181, 0xc0000000, 0xe0000002, 0xe0000000} {
		seq = append(seq, 0)
		seq = binary.BigEndian.AppendUint32(seq, imm)
	}
	f.Add(seq)
	f.Fuzz(func(t *testing.T, in []byte) {
		cfg := Config{SendBuffer: 4096, RecvBuffer: 5001, SendQueue: 20, RecvQueue: 20, IOMaps: 3}.normal()
		peer := connData{iomap: true, credits: 30, iomaps: 2, list: sge{1, 2, 2}, data: sge{1 << 40, 3, 3000}}
		next := func() byte {
			if len(in) == 0 {
				return 0
			}
			b := in[0]
			in = in[1:]
			return b
		}
		if next()&1 != 0 {
			peer.credits, peer.list.length = uint16(next())+1, uint32(next())+1
		}
		a, _ := newModels(t, cfg, cfg)
		a.s.init(cfg.stream(), peer, a.place())
		var ids []uint64
		var m message
		post := func() {
			if m.held > 0 && (m.at < 0 || m.at+m.first > a.s.snd.buf.size || m.held-m.first > m.at) {
				t.Fatalf("%+v is not in the send buffer", m)
			}
			if !m.quiet {
				ids = append(ids, m.id)
			}
		}
		for len(in) > 0 {
			switch next() % 10 {
			case 0:
				imm := uint32(next())<<24 | uint32(next())<<16 | uint32(next())<<8 | uint32(next())
				if a.s.arrived(imm, imm&immDataMask, bytes.NewReader(a.list)) != nil {
					return // the connection is over
				}
			case 1:
				n := uint32(next())<<8 | uint32(next())
				if a.s.arrived(immediate(opData, n), n, bytes.NewReader(a.list)) != nil {
					return
				}
			case 2:
				v := uint32(next())<<8 | uint32(next())
				n := uint32(0)
				if v&1 != 0 {
					n = sgeBytes
				}
				if a.s.arrived(immediate(opSGL, v), n, bytes.NewReader(a.list)) != nil {
					return
				}
			case 3:
				a.list[int(next())%len(a.list)] = next()
				if a.s.arrived(immediate(opIOMap, uint32(next()%3)), iomapBytes, bytes.NewReader(a.list)) != nil {
					return
				}
			case 4:
				for n := int(next()) << (next() % 8); n > 0 && a.s.rcv.ready > 0; {
					buf, off, k := a.s.rcv.unread(n)
					_ = a.rbuf[a.base(buf)+off:][:k]
					a.s.rcv.take(k)
					n -= k
				}
			case 5:
				if k := a.s.snd.data(int(next()) << (next() % 8)); k > 0 {
					a.s.data(k, &m)
					post()
				}
			case 6:
				off := uint64(next())
				if addr, key, n, ok := a.s.locate(off); ok {
					if k := a.s.snd.copied(min(int(n), 5000)); k > 0 {
						a.s.direct(addr, key, k, &m)
						post()
					}
				}
				for a.s.update(&m) {
					post()
				}
			case 7:
				if len(ids) > 0 {
					a.s.sent(ids[0])
					ids = ids[1:]
				}
			case 8:
				a.grow()
			case 9:
				a.growSend()
			}
			a.check()
		}
	})
}
