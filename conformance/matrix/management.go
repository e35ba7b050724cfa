package matrix

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/verbs"
)

// managementProbes are datagrams to QP 1 that rxe has no agent for. What package
// ib/mad does with them is what rxe has to do.
var managementProbes = []struct {
	name string
	h    mad.Header
}{
	{"PMA Get", mad.Header{Class: mad.ClassPerf, ClassVersion: 1, Method: mad.MethodGet, Attribute: mad.AttrClassPortInfo}},
	{"PMA Set", mad.Header{Class: mad.ClassPerf, ClassVersion: 1, Method: mad.MethodSet, Attribute: 0x12}},
	{"PMA Send", mad.Header{Class: mad.ClassPerf, ClassVersion: 1, Method: mad.MethodSend, Attribute: 0x12}},
	{"PMA GetResp", mad.Header{Class: mad.ClassPerf, ClassVersion: 1, Method: mad.MethodGetResp, Attribute: 0x12}},
	{"SA Get", mad.Header{Class: mad.ClassSubnAdm, ClassVersion: 2, Method: mad.MethodGet, Attribute: 0x35}},
	{"vendor Get", mad.Header{Class: 0x30, ClassVersion: 1, Method: mad.MethodGet, Attribute: 1}},
	{"SMI Get", mad.Header{Class: 0x01, ClassVersion: 1, Method: mad.MethodGet, Attribute: 0x11}},
	{"CM Get ClassPortInfo", mad.Header{Class: mad.ClassCM, ClassVersion: 2, Method: mad.MethodGet, Attribute: mad.AttrClassPortInfo}},
	{"CM Get REQ", mad.Header{Class: mad.ClassCM, ClassVersion: 2, Method: mad.MethodGet, Attribute: mad.AttrREQ}},
	{"unknown class version", mad.Header{Class: mad.ClassPerf, ClassVersion: 9, Method: mad.MethodGet, Attribute: 1}},
}

// unserved sends the probes to QP 1 of the other side and compares what comes back with
// what this side would say. Behind each goes one that is always answered: when its
// answer comes, that of the probe will not.
func unserved(ctx context.Context, f peer.Family, dev *verbs.Device, ref Host) (string, error) {
	pd, err := dev.AllocPD()
	if err != nil {
		return "", err
	}
	defer pd.Close()
	cq, err := dev.CreateCQ(16, nil)
	if err != nil {
		return "", err
	}
	defer cq.Close()
	buf := make([]byte, 4096)
	mr, err := pd.RegisterMR(buf, verbs.LocalWrite, nil)
	if err != nil {
		return "", err
	}
	defer mr.Close()
	qp, err := pd.CreateQP(verbs.QPInitAttr{Type: verbs.UD, SendCQ: cq})
	if err != nil {
		return "", err
	}
	defer qp.Close()
	if err := qp.Activate(ib.QKeyGSI); err != nil {
		return "", err
	}
	ah, err := pd.CreateAHTo(ib.GIDFromAddr(netip.MustParseAddr(ref.Addr(f))))
	if err != nil {
		return "", err
	}
	defer ah.Close()
	tid := mad.TID(0)
	ask := func(h mad.Header) ([]byte, error) {
		tid++
		h.BaseVersion, h.TID = 1, tid
		out, at := int(tid)%4*mad.Bytes, 2048+int(tid)%4*512 // no more than two are on their way
		h.Put((*[mad.Bytes]byte)(buf[out:]))
		if err := qp.PostRecv(&verbs.RecvWR{ID: uint64(at), SGList: []verbs.SGE{mr.SGE(at, 512)}}); err != nil {
			return nil, err
		}
		return append([]byte(nil), buf[out:out+mad.Bytes]...), qp.PostSend(&verbs.SendWR{
			Opcode: verbs.WRSend, SGList: []verbs.SGE{mr.SGE(out, mad.Bytes)}, AH: ah, RemoteQPN: ib.QPNGSI, RemoteQKey: ib.QKeyGSI,
		})
	}
	answer := func() (b []byte, h mad.Header, err error) {
		var wc [1]verbs.WC
		for wc[0].Opcode&verbs.WCRecv == 0 {
			if _, err := cq.Wait(ctx, wc[:]); err != nil {
				return nil, h, err
			}
		}
		b = append(b, buf[int(wc[0].ID)+ib.GRHBytes:][:wc[0].ByteLen-ib.GRHBytes]...)
		if _, bad := mad.Parse(b, &h); bad != mad.OK {
			return nil, h, bad
		}
		return b, h, nil
	}
	said := ""
	for _, p := range managementProbes {
		asked, err := ask(p.h)
		if err != nil {
			return said, err
		}
		if _, err := ask(managementProbes[0].h); err != nil {
			return said, err
		}
		got, h, err := answer()
		if err != nil {
			return said, fmt.Errorf("%s: %w", p.name, err)
		}
		var want [mad.Bytes]byte
		wanted := mad.Unserved(asked, &want)
		if answered := h.TID == tid-1; answered != wanted {
			return said, fmt.Errorf("%s: answered %t, and this side would %t", p.name, answered, wanted)
		} else if answered {
			if string(got) != string(want[:]) {
				return said, fmt.Errorf("%s: answered %x\ninstead of %x", p.name, got, want)
			}
			said += p.name + ", "
			if _, h, err = answer(); err != nil {
				return said, err
			}
		}
		if h.TID != tid {
			return said, errors.New("an answer to something else")
		}
	}
	return "answered with status 0x0c: " + said + "nothing else", nil
}
