package matrix

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

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
	{"PMA Get",
		mad.Header{Class: mad.ClassPerf, ClassVersion: 1, Method: mad.MethodGet, Attribute: mad.AttrClassPortInfo}},
	{"PMA Set", mad.Header{Class: mad.ClassPerf, ClassVersion: 1, Method: mad.MethodSet, Attribute: 0x12}},
	{"PMA Send", mad.Header{Class: mad.ClassPerf, ClassVersion: 1, Method: mad.MethodSend, Attribute: 0x12}},
	{"PMA GetResp", mad.Header{Class: mad.ClassPerf, ClassVersion: 1, Method: mad.MethodGetResp, Attribute: 0x12}},
	{"SA Get", mad.Header{Class: mad.ClassSubnAdm, ClassVersion: 2, Method: mad.MethodGet, Attribute: 0x35}},
	{"vendor Get", mad.Header{Class: 0x30, ClassVersion: 1, Method: mad.MethodGet, Attribute: 1}},
	{"SMI Get", mad.Header{Class: 0x01, ClassVersion: 1, Method: mad.MethodGet, Attribute: 0x11}},
	{"CM Get ClassPortInfo",
		mad.Header{Class: mad.ClassCM, ClassVersion: 2, Method: mad.MethodGet, Attribute: mad.AttrClassPortInfo}},
	{"CM Get REQ", mad.Header{Class: mad.ClassCM, ClassVersion: 2, Method: mad.MethodGet, Attribute: mad.AttrREQ}},
	{"unknown class version", mad.Header{Class: mad.ClassPerf, ClassVersion: 9, Method: mad.MethodGet, Attribute: 1}},
}

// unserved sends the probes to QP 1 of the other side and compares what comes back with
// what this side would say. Behind each goes one that is always answered: when its
// answer comes, that of the probe will not.
func unserved(ctx context.Context, f peer.Family, dev *verbs.Device, ref Host) string {
	pd := peer.Got(dev.AllocPD())
	defer pd.Close()
	cq := peer.Got(dev.CreateCQ(16, nil))
	defer cq.Close()
	buf := make([]byte, 4096)
	mr := peer.Got(pd.RegisterMR(buf, verbs.LocalWrite, nil))
	defer mr.Close()
	qp := peer.Got(pd.CreateQP(verbs.QPInitAttr{Type: verbs.UD, SendCQ: cq}))
	defer qp.Close()
	peer.Must(qp.Activate(ib.QKeyGSI))
	ah := peer.Got(pd.CreateAHTo(ib.GIDFromAddr(netip.MustParseAddr(ref.Addr(f)))))
	defer ah.Close()
	tid := mad.TID(0)
	ask := func(h mad.Header) []byte {
		tid++
		h.BaseVersion, h.TID = 1, tid
		out, at := int(tid)%4*mad.Bytes, 2048+int(tid)%4*512 // no more than two are on their way
		h.Put((*[mad.Bytes]byte)(buf[out:]))
		peer.Must(qp.PostRecv(&verbs.RecvWR{ID: uint64(at), SGList: []verbs.SGE{mr.SGE(at, 512)}}))
		asked := slices.Clone(buf[out : out+mad.Bytes])
		peer.Must(qp.PostSend(&verbs.SendWR{
			Opcode: verbs.WRSend, SGList: []verbs.SGE{mr.SGE(out, mad.Bytes)}, AH: ah, RemoteQPN: ib.QPNGSI,
			RemoteQKey: ib.QKeyGSI,
		}))
		return asked
	}
	answer := func() (b []byte, h mad.Header) {
		var wc [1]verbs.WC
		for wc[0].Opcode&verbs.WCRecv == 0 {
			peer.Got(cq.Wait(ctx, wc[:]))
		}
		b = append(b, buf[int(wc[0].ID)+ib.GRHBytes:][:wc[0].ByteLen-ib.GRHBytes]...)
		if _, bad := mad.Parse(b, &h); bad != mad.OK {
			peer.Must(bad)
		}
		return b, h
	}
	said := ""
	for _, p := range managementProbes {
		if err := peer.Steps(func() {
			asked := ask(p.h)
			ask(managementProbes[0].h)
			got, h := answer()
			var want [mad.Bytes]byte
			wanted := mad.Unserved(asked, &want)
			if answered := h.TID == tid-1; answered != wanted {
				peer.Must(fmt.Errorf("answered %t, and this side would %t", answered, wanted))
			} else if answered {
				if string(got) != string(want[:]) {
					peer.Must(fmt.Errorf("answered %x\ninstead of %x", got, want))
				}
				said += p.name + ", "
				_, h = answer()
			}
			if h.TID != tid {
				peer.Must(errors.New("an answer to something else"))
			}
		}); err != nil {
			peer.Must(fmt.Errorf("%s: %w (answered: %s)", p.name, err, said))
		}
	}
	return "answered with status 0x0c: " + said + "nothing else"
}
