package readme

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce"
)

// remote is what the two sides of the example tell each other.
type remote struct {
	Info roce.RemoteInfo
	Addr uint64
	Key  ib.RKey
}

// README: begin
func write(ctx context.Context, local netip.Addr, tell func(roce.RemoteInfo) remote) roce.WCStatus {
	dev := must(roce.Open(roce.Config{Addrs: []netip.Addr{local}})) // a UDP socket, no root
	defer dev.Close()
	pd, cq := must(dev.AllocPD()), must(dev.CreateCQ(16, nil))
	qp := must(pd.CreateQP(roce.QPInitAttr{Type: roce.RC, SendCQ: cq}))

	data := []byte("hello, memory of another machine")
	mr := must(pd.RegisterMR(data, roce.LocalWrite)) // any byte slice
	peer := tell(qp.LocalInfo(0))                    // over TCP, say: who we are, who they are
	check(qp.Connect(peer.Info))

	check(qp.PostSend(&roce.SendWR{
		ID: 1, Opcode: roce.WRWrite, Flags: roce.SendSignaled,
		SGList: []roce.SGE{mr.SGE(0, len(data))}, RemoteAddr: peer.Addr, RKey: peer.Key,
	}))
	var done [1]roce.WC
	must(cq.Wait(ctx, done[:]))
	return done[0].Status // roce.WCSuccess: it is there
}

// README: end

func must[T any](v T, err error) T { check(err); return v }

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// freeAddr returns an address of 127/8 that no other device uses.
func freeAddr() netip.Addr {
	for {
		var r [3]byte
		must(rand.Read(r[:]))
		a := netip.AddrFrom4([4]byte{127, 32 + r[0]&31, r[1], max(r[2], 1)})
		if c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 4791))); err == nil {
			check(c.Close())
			return a
		}
	}
}

// One side writes into the memory of the other, which does nothing.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	dev := must(roce.Open(roce.Config{Addrs: []netip.Addr{freeAddr()}}))
	defer dev.Close()
	pd, cq := must(dev.AllocPD()), must(dev.CreateCQ(16, nil))
	qp := must(pd.CreateQP(roce.QPInitAttr{Type: roce.RC, SendCQ: cq}))
	memory := make([]byte, 32)
	mr := must(pd.RegisterMR(memory, roce.LocalWrite|roce.RemoteWrite))

	status := write(ctx, freeAddr(), func(them roce.RemoteInfo) remote {
		check(qp.Connect(them))
		return remote{qp.LocalInfo(0), mr.Addr(), mr.RKey()}
	})
	qp.State() // takes the device's lock: what it wrote before is visible now
	fmt.Printf("%v: %q\n", status, memory)
	// Output: success: "hello, memory of another machine"
}
