package rocetest

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/rdmacm/cm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// Forge gives a device a good request of somebody who will never answer.
func Forge(t *testing.T, d *verbs.Device, from netip.Addr, n uint32, to netip.AddrPort, change ...func(*mad.REQ)) {
	h := mad.CMHeader(mad.AttrREQ, mad.TID(n))
	m := mad.REQ{
		LocalCommID: mad.CommID(n), ServiceID: mad.NewServiceID(rdmacm.PortSpaceTCP, to.Port()),
		CAGUID: mad.GUID(n), QPN: ib.QPN(n&0xFFFF | 0x10000), MTU: ib.MTU1024, PKey: ib.PKeyDefault,
		Private: make([]byte, mad.CMAHeaderBytes), Primary: mad.Path{LocalGID: ib.GIDFromAddr(from),
			RemoteGID: ib.GIDFromAddr(to.Addr()), AckTimeout: 14},
	}
	cma := mad.CMAHeader{SrcPort: 4660, Src: from, Dst: to.Addr()}
	require.NoError(t, cma.Put(m.Private))
	for _, f := range change {
		f(&m)
	}
	var b [mad.Bytes]byte
	require.NoError(t, m.Put(h.Put(&b)))
	Deliver(t, d, from, to.Addr(), &b)
}

// Deliver gives a management datagram to the communication manager of a device.
func Deliver(t *testing.T, d *verbs.Device, from, to netip.Addr, b *[mad.Bytes]byte) {
	s := access.Shard(d)
	require.NoError(t, s.Command(func(now int64) error {
		s.Service().(interface{ Core() *cm.Agent }).Core().HandleMAD(now, from, to, b[:])
		s.Service().Completed()
		return nil
	}))
}
