package cc_test

import (
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/transport/cc"
)

// One CNP at line rate, and the recovery from it.
func ExampleDCQCN() {
	d := cc.NewDCQCN(cc.Paper(), 40*cc.Gbps)
	d.OnCNP(0)
	for i := range int64(6) {
		fmt.Print(d.Rate(i*55e3).Gbit(), " ")
	}
	// Output: 20 30 35 37.5 38.75 39.375
}

// A rate becomes batches: 64 us of sending time each, and the pause that pays for it.
func ExamplePacer() {
	var p cc.Pacer
	rate := 8 * cc.Gbps // a byte a nanosecond
	now := int64(1e9)
	p.Budget(now, 0) // no limit so far
	n := p.Budget(now, rate)
	p.OnSend(n, rate)
	fmt.Println(n, p.Budget(now, rate), p.NextAt()-now)
	// Output: 64000 0 64000
}

// CE-marked packets every 10 us are answered every 50 us.
func ExampleNotificationPoint() {
	n := cc.NewNotificationPoint(50e3, cc.ScopeQP)
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for now := int64(0); now < 120e3; now += 10e3 {
		if n.Allow(now, 17, a, b) {
			fmt.Print(now/1000, " ")
		}
	}
	// Output: 0 50 100
}
