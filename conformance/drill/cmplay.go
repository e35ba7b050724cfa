package drill

import (
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/ib"
)

const deth = ib.BTHBytes + ib.DETHBytes

// injectCM sends a message of RDMA-CM.
func (p *player) injectCM(s *step) {
	msg := s.op[len("CM "):]
	b := make([]byte, madBytes)
	for name, v := range p.cmDefaults(msg) {
		if f := cmFieldOf(msg, name); f != nil {
			f.set(b, v)
		}
	}
	for i := range s.args {
		a := &s.args[i]
		f := cmFieldOf(msg, a.key)
		if f == nil {
			continue
		}
		f.set(b, p.eval(a.num, false))
	}
	pk := ib.Packet{
		BTH:  ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.PKeyDefault, MigReq: true, DestQP: cmQPN},
		DETH: ib.DETH{QKey: ib.QKeyGSI, SrcQP: cmQPN}, Payload: b,
	}
	p.put(s, &end{family: peer.V4}, &pk)
}

// cmDefaults are the fields of a message that make sense: a REQ as Linux sends it.
func (p *player) cmDefaults(msg string) map[string]uint64 {
	v := map[string]uint64{
		"base": 1, "class": 7, "cver": 2, "method": 3, "attr": uint64(cmMessages[msg].attr), "tid": p.commID,
		"local": p.commID, "remote": p.vars["peerid"], "request": p.commID, "service": p.vars["service"],
		"guid": p.vars["guid"], "qpn": p.vars["myqpn"], "pkey": 0xffff,
	}
	src, dst := halves(p.b.Local(peer.V4)), halves(p.b.Peer(peer.V4))
	const mapped = 0xffff_0000_0000
	v["ipver"], v["sport"] = 4, 0x9817
	v["src_lo"], v["dst_lo"] = src&0xffffffff, dst&0xffffffff
	if msg == "REQ" {
		for name, x := range map[string]uint64{
			"rtimeout": 20, "ltimeout": 20, "retry": 7, "rnr": 7, "tries": 15, "mtu": 3, "llid": 0xffff,
			"rlid": 0xffff, "hops": 64, "ack": 17, "psn": 0xca0a7a, "resources": 1, "depth": 1,
			"lgid_lo": mapped | src, "rgid_lo": mapped | dst,
		} {
			v[name] = x
		}
	}
	return v
}

// halves is an IPv4 address as a number.
func halves(a netip.Addr) (v uint64) {
	for _, b := range a.Unmap().AsSlice() {
		v = v<<8 | uint64(b)
	}
	return v
}

// mad is the message in a datagram, or nil.
func mad(d Datagram) []byte {
	if len(d.Payload) != deth+madBytes+ib.ICRCBytes || ib.Opcode(d.Payload[0]) != ib.UDSendOnly {
		return nil
	}
	return d.Payload[deth : deth+madBytes]
}

// mineCM reports whether a datagram is about a connection of this run.
func (p *player) mineCM(d Datagram) bool {
	b := mad(d)
	if b == nil {
		return false
	}
	name := cmNameOf(b)
	if name == "SIDR_REP" {
		return cmFieldOf(name, "request").get(b)&^0xff == p.commID
	}
	f := cmFieldOf(name, "remote")
	return f != nil && f.get(b)&^0xff == p.commID
}

func (p *player) compareCM(s *step, d Datagram) string {
	b := mad(d)
	if b == nil {
		return "got " + p.describe(d)
	}
	if d.BadICRC {
		return "the ICRC is wrong"
	}
	msg := s.op[len("CM "):]
	if name := cmNameOf(b); name != msg {
		return "got " + p.describe(d)
	}
	if a := s.arg("after"); a != nil && d.At-p.mark < a.time {
		return fmt.Sprintf("it came after %v, and not after %v", d.At-p.mark, a.time)
	}
	for i := range s.args {
		a := &s.args[i]
		f := cmFieldOf(msg, a.key)
		if f == nil {
			continue
		}
		if why := p.compareNum(a, f.get(b), false); why != "" {
			return why
		}
	}
	return ""
}
