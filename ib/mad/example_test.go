package mad_test

import (
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
)

// A request to connect to port 7174 of the TCP port space, as RDMA-CM sends
// it, and its refusal because nobody listens.
func Example() {
	src, dst := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	cma := mad.CMAHeader{SrcPort: 40000, Src: src, Dst: dst}
	var private [mad.REQPrivateBytes]byte
	if err := cma.Put(private[:]); err != nil {
		fmt.Println(err)
		return
	}
	copy(private[mad.CMAHeaderBytes:], "hello")

	req := mad.REQ{
		LocalCommID: 0x1234, ServiceID: mad.NewServiceID(mad.PortSpaceTCP, 7174), QPN: 0x11, StartingPSN: 0xABCDEF,
		PKey: ib.PKeyDefault, MTU: ib.MTU1024, RetryCount: 7, RNRRetryCount: 7,
		Primary: mad.Path{LocalGID: ib.GIDFromAddr(src), RemoteGID: ib.GIDFromAddr(dst), HopLimit: 64},
		Private: private[:],
	}
	h := mad.CMHeader(mad.AttrREQ, 1)
	var datagram [mad.Bytes]byte
	if err := req.Put(h.Put(&datagram)); err != nil {
		fmt.Println(err)
		return
	}

	// At the other end.
	data, err := mad.Parse(datagram[:], &h)
	if err != mad.OK {
		fmt.Println(err)
		return
	}
	var got mad.REQ
	got.Decode(data)
	cma.Decode(got.Private)
	fmt.Printf("%v for %v from %v, %q\n", h.Attribute, got.ServiceID,
		netip.AddrPortFrom(cma.Src, cma.SrcPort), got.Private[36:41])

	rej := mad.REJ{RemoteCommID: got.LocalCommID, Rejected: mad.SubjectREQ, Reason: mad.RejectInvalidServiceID}
	h = mad.CMHeader(mad.AttrREJ, h.TID)
	if err := rej.Put(h.Put(&datagram)); err != nil {
		fmt.Println(err)
	}
	fmt.Println(rej.Reason)
	// Output:
	// REQ for TCP/7174 from 10.0.0.1:40000, "hello"
	// invalid service ID
}
