package mem_test

import (
	"crypto/rand"
	"fmt"
	"sync/atomic"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

const qpn ib.QPN = 0x11

func Example() {
	table := mem.NewTable(rand.Reader, mem.Limits{})
	pd, err := table.AllocPD()
	if err != nil {
		fmt.Println(err)
		return
	}
	region, err := table.Register(pd, mem.RegionAttr{
		Bytes: make([]byte, 4096), IOVA: 0x10000, IOVASet: true,
		Access: mem.LocalWrite | mem.RemoteWrite,
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	// A peer writes 5 bytes.
	view, fault := table.Remote(pd, qpn, region.RKey(), 0x10100, 5, mem.RemoteWrite)
	fmt.Println(fault)
	copy(view.Bytes, "hello")
	fmt.Printf("%s\n", region.Bytes()[0x100:0x105])

	// It may not read, nor write past the end.
	_, fault = table.Remote(pd, qpn, region.RKey(), 0x10100, 5, mem.RemoteRead)
	fmt.Println(fault)
	_, fault = table.Remote(pd, qpn, region.RKey(), 0x10ffc, 5, mem.RemoteWrite)
	fmt.Println(fault)

	fmt.Println(pd.Dealloc())
	fmt.Println(region.Deregister(nil), view.Valid(), pd.Dealloc())
	// Output:
	// none
	// hello
	// access right missing
	// out of bounds
	// mem: dealloc PD: in use (1 regions, 0 windows, 0 queue pairs, SRQs and address handles)
	// <nil> false <nil>
}

func ExampleView_FetchAdd() {
	table := mem.NewTable(rand.Reader, mem.Limits{})
	pd, _ := table.AllocPD()
	region, err := table.Register(pd, mem.RegionAttr{
		Bytes:  make([]byte, 4096),
		Access: mem.LocalWrite | mem.RemoteAtomic | mem.ZeroBased,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	counter, err := region.Uint64(64)
	if err != nil {
		fmt.Println(err)
		return
	}
	atomic.AddUint64(counter, 40) // the application
	view, _ := table.Remote(pd, qpn, region.RKey(), 64, mem.AtomicBytes, mem.RemoteAtomic)
	orig, fault := view.FetchAdd(2) // a peer
	fmt.Println(orig, fault, atomic.LoadUint64(counter))
	// Output: 40 none 42
}

func ExampleTable_BindWR() {
	table := mem.NewTable(rand.Reader, mem.Limits{})
	pd, _ := table.AllocPD()
	region, _ := table.Register(pd, mem.RegionAttr{
		Bytes: []byte("the secret and the rest"), IOVA: 0x1000, IOVASet: true,
		Access: mem.LocalWrite | mem.MWBind,
	})
	window, _ := table.AllocMW(pd, mem.Type2B)

	// Let QP 0x11 read "secret", by offsets from 0.
	key := mem.NextRKey(window.RKey())
	fmt.Println(table.BindWR(pd, qpn, window, key, mem.BindInfo{
		Region: region, Addr: 0x1004, Length: 6, Access: mem.RemoteRead | mem.ZeroBased,
	}))
	view, fault := table.Remote(pd, qpn, key, 0, 6, mem.RemoteRead)
	fmt.Printf("%s %v\n", view.Bytes, fault)
	_, fault = table.Remote(pd, qpn+1, key, 0, 6, mem.RemoteRead)
	fmt.Println(fault)
	_, fault = table.Remote(pd, qpn, key, 0, 7, mem.RemoteRead)
	fmt.Println(fault)

	// The peer hands it back (SEND with invalidate); a second time is refused.
	fmt.Println(table.Invalidate(pd, qpn, key, true), view.Valid())
	fmt.Println(table.Invalidate(pd, qpn, key, true))
	// Output:
	// none
	// secret none
	// wrong QP
	// out of bounds
	// none false
	// not bound or revoked
}

func ExampleCursor() {
	table := mem.NewTable(rand.Reader, mem.Limits{})
	pd, _ := table.AllocPD()
	a, _ := table.Register(pd, mem.RegionAttr{Bytes: []byte("scattered"), Access: mem.ZeroBased})
	b, _ := table.Register(pd, mem.RegionAttr{Bytes: []byte("memory"), Access: mem.ZeroBased})

	var list mem.SGL
	fault := table.Resolve(pd, []mem.SGE{
		{Addr: 0, Length: 7, LKey: a.LKey()},
		{Addr: 0, Length: 6, LKey: b.LKey()},
	}, 0, &list)
	fmt.Println(fault, list.Len())

	// Packets of 5 bytes, without copying.
	var frags [4][]byte
	for cur := list.Cursor(); cur.Left() > 0; {
		pieces, n := cur.Gather(frags[:0], 5)
		fmt.Printf("%d %q\n", n, pieces)
	}
	// Output:
	// none 13
	// 5 ["scatt"]
	// 5 ["er" "mem"]
	// 3 ["ory"]
}
