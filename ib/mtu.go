package ib

import "fmt"

// MTU is the payload size of a full packet as the enumeration of IBTA 9.4.3,
// 1 (256 bytes) to 5 (4096 bytes). The zero value is invalid.
type MTU uint8

// The five path MTUs.
const (
	MTU256  MTU = 1
	MTU512  MTU = 2
	MTU1024 MTU = 3
	MTU2048 MTU = 4
	MTU4096 MTU = 5
)

// Valid reports whether m is one of the five MTUs.
func (m MTU) Valid() bool { return m >= MTU256 && m <= MTU4096 }

// Bytes returns the payload size in bytes; 0 for an invalid MTU.
func (m MTU) Bytes() int {
	if !m.Valid() {
		return 0
	}
	return 128 << m
}

func (m MTU) String() string {
	if !m.Valid() {
		return fmt.Sprintf("MTU(%d)", uint8(m))
	}
	return fmt.Sprint(m.Bytes())
}

// MTUFromBytes returns the MTU of exactly n bytes.
func MTUFromBytes(n int) (MTU, bool) {
	for m := MTU256; m <= MTU4096; m++ {
		if m.Bytes() == n {
			return m, true
		}
	}
	return 0, false
}

// headroom is what rdma_rxe reserves of a network interface's MTU for IP, UDP, the transport
// headers and the ICRC; the same value makes both ends derive the same path MTU from the same
// interface.
const headroom = 80

// MTUForInterface returns the largest MTU whose packets fit an interface with an IP MTU of n bytes,
// by the rule of rdma_rxe (largest MTU at most n - 80).
func MTUForInterface(n int) (MTU, bool) {
	for m := MTU4096; m >= MTU256; m-- {
		if m.Bytes() <= n-headroom {
			return m, true
		}
	}
	return 0, false
}
