package peer

import (
	"encoding/hex"
	"strconv"
)

type agentMR struct {
	region
	s       *agentSession
	buf, id uint64
}

func (s *agentSession) MR(n int, access Access) (MR, error) {
	b, err := s.c.Call("buf", AgentArg{Key: "len", Value: n})
	if err != nil {
		return nil, err
	}
	if !s.p.caps.Flush {
		access &^= AccessFlush
	}
	r, err := s.c.Call("mr", AgentArg{Key: "pd", Value: s.pd}, AgentArg{Key: "buf", Value: b.Num("id")},
		AgentArg{Key: "access", Value: uint32(access)})
	if err != nil {
		return nil, err
	}
	var words [3]uint64
	for i, w := range []struct {
		key  string
		bits int
	}{{"addr", 64}, {"lkey", 32}, {"rkey", 32}} {
		if words[i], err = r.Bits(w.key, w.bits); err != nil {
			return nil, err
		}
	}
	at := region{words[0], n, uint32(words[1]), uint32(words[2])}
	return &agentMR{region: at, s: s, buf: b.Num("id"), id: r.Num("id")}, nil
}

func (m *agentMR) Fill(off, n int, seed uint64, base int) error {
	_, err := m.s.c.Call("fill", AgentArg{Key: "buf", Value: m.buf}, AgentArg{Key: "off", Value: off},
		AgentArg{Key: "len", Value: n}, AgentArg{Key: "seed", Value: seed}, AgentArg{Key: "base", Value: base})
	return err
}

func (m *agentMR) Check(off, n int, seed uint64, base int) (int, error) {
	r, err := m.s.c.Call("check", AgentArg{Key: "buf", Value: m.buf}, AgentArg{Key: "off", Value: off},
		AgentArg{Key: "len", Value: n}, AgentArg{Key: "seed", Value: seed}, AgentArg{Key: "base", Value: base})
	if err != nil {
		return 0, err
	}
	bad, err := strconv.Atoi(r.Str("bad"))
	return bad, err
}

func (m *agentMR) Write(off int, b []byte) error {
	_, err := m.s.c.Call("write", AgentArg{Key: "buf", Value: m.buf}, AgentArg{Key: "off", Value: off},
		AgentArg{Key: "hex", Value: hex.EncodeToString(b)})
	return err
}

func (m *agentMR) Read(off, n int) ([]byte, error) {
	r, err := m.s.c.Call("read", AgentArg{Key: "buf", Value: m.buf}, AgentArg{Key: "off", Value: off},
		AgentArg{Key: "len", Value: n})
	if err != nil {
		return nil, err
	}
	return hex.DecodeString(r.Str("hex"))
}

func (m *agentMR) Dereg() error {
	if _, err := m.s.c.Call("free", AgentArg{Key: "mr", Value: m.id}); err != nil {
		return err
	}
	_, err := m.s.c.Call("free", AgentArg{Key: "buf", Value: m.buf})
	return err
}

func (q *agentQP) BindWindow(mr MR, off, n int, access Access) (uint32, error) {
	const type2 = 2
	r, err := q.s.c.Call("mw", AgentArg{Key: "pd", Value: q.s.pd}, AgentArg{Key: "type", Value: type2})
	if err != nil {
		return 0, err
	}
	had, err := r.Bits("rkey", 32)
	if err != nil {
		return 0, err
	}
	old := uint32(had)
	rkey := old&^0xff | (old+1)&0xff // as ibv_inc_rkey
	_, err = q.s.c.Call("post_send", AgentArg{Key: "qp", Value: q.id},
		AgentArg{Key: "opcode", Value: int(OpBindMW)}, AgentArg{Key: "flags", Value: FlagSignaled},
		AgentArg{Key: "mw", Value: r.Num("id")}, AgentArg{Key: "mr", Value: mr.(*agentMR).id},
		AgentArg{Key: "rkey", Value: rkey}, AgentArg{Key: "off", Value: off}, AgentArg{Key: "len", Value: n},
		AgentArg{Key: "access", Value: uint32(access)})
	if err != nil {
		return 0, err
	}
	if err := bound(q); err != nil {
		return 0, err
	}
	q.windows = append(q.windows, r.Num("id"))
	return rkey, nil
}
