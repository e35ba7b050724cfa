package verbs

import (
	"net/netip"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func itoa(n int) string { return strconv.Itoa(n) }

// loopback6Pair connects two QPs of one device on ::1, the only IPv6 loopback
// address there is. The port is not 4791, so that other tests do not collide.
func loopback6Pair(t testing.TB, bufBytes int, cfg Config) (a, b *end) {
	cfg.Addrs = []netip.Addr{netip.IPv6Loopback()}
	var d *Device
	var err error
	// Any free port will do; the first tries depend on the process.
	a4 := loopback4().As4()
	for i := range 50 {
		cfg.UDP.Port = uint16(20000 + (int(a4[1])<<8+int(a4[2])+i*97)%30000)
		if d, err = Open(cfg); err == nil {
			break
		}
	}
	if err != nil {
		t.Skipf("no IPv6 loopback: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	a, b = newEnd(t, d, bufBytes, QPInitAttr{}), newEnd(t, d, bufBytes, QPInitAttr{})
	connect(t, a, b)
	return a, b
}

func TestIPv6(t *testing.T) {
	for name, cfg := range variants {
		t.Run(name, func(t *testing.T) {
			a, b := loopback6Pair(t, 1<<20, cfg)
			exercise(t, a, b, exerciseSizes)
			require.Zero(t, a.d.Counters().DropICRC)
			require.Zero(t, a.d.LinkStats().RxSolved)
			require.Equal(t, 32, a.d.Capabilities().ICRCBits)
		})
	}
}
