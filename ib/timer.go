package ib

// TimeoutCode is the 5-bit local ACK timeout: 0 is "no timer", t is
// 4.096 us x 2^t (IBTA 9.7.6.1.3).
type TimeoutCode uint8

// Ns returns the duration in nanoseconds, 0 for "no timer".
func (t TimeoutCode) Ns() int64 {
	if t == 0 {
		return 0
	}
	return 4096 << (t & 31)
}

// Valid reports whether t fits its five bits.
func (t TimeoutCode) Valid() bool { return t < 32 }

// RNRCode is the 5-bit timer code of an RNR NAK. Code 0 is the longest wait,
// 655.36 ms, not the shortest (IBTA table 45).
type RNRCode uint8

// rnrUs holds the RNR timer in microseconds. Code 25 is 61.44 ms in the
// specification; rdma_rxe's table has 61.41.
var rnrUs = [32]int64{
	655360, 10, 20, 30, 40, 60, 80, 120,
	160, 240, 320, 480, 640, 960, 1280, 1920,
	2560, 3840, 5120, 7680, 10240, 15360, 20480, 30720,
	40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
}

// Ns returns the wait in nanoseconds.
func (c RNRCode) Ns() int64 { return rnrUs[c&31] * 1000 }

// Valid reports whether c fits its five bits.
func (c RNRCode) Valid() bool { return c < 32 }
