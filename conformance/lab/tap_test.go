package lab

import (
	"net"
	"os"
	"testing"

	"github.com/goroce/goroce/internal/netns"
)

// A guest that is booted once more gets a tap again, in place of that of its first try.
func TestBridgeTapAgain(t *testing.T) {
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skip(err)
	}
	if _, err := lookPath("ip"); err != nil {
		t.Skip(err)
	}
	ns, err := netns.New()
	if err != nil {
		t.Skip("this process may not make network namespaces: ", err)
	}
	defer ns.Close()
	if err := ns.Do(func() {
		first := 0
		for range 2 {
			name, err := bridgeTap("lab0", 3, 1500)
			if err != nil {
				t.Error(err)
				return
			}
			i, err := net.InterfaceByName(name)
			if err != nil || name != "guest3" || i.Index == first {
				t.Errorf("%q, %v, %v", name, i, err)
				return
			}
			first = i.Index
		}
	}); err != nil {
		t.Fatal(err)
	}
}
