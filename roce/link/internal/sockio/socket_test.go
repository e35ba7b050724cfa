package sockio_test

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/stretchr/testify/require"
)

// A zone says by name or by number which interface is meant, wherever that is in the list.
func TestInterfaceOfZone(t *testing.T) {
	n := linktest.NewNamespace(t)
	n.IP("link add first type veth peer name second", "addr add fe80::5/64 dev first nodad",
		"addr add fe80::5/64 dev second nodad", "addr add 192.0.2.9/24 dev second")
	n.Do(func() {
		for _, name := range []string{"first", "second"} {
			i, err := net.InterfaceByName(name)
			require.NoError(t, err)
			for _, zone := range []string{name, fmt.Sprint(i.Index)} {
				got, err := sockio.InterfaceOf(netip.MustParseAddr("fe80::5%" + zone))
				require.NoError(t, err)
				require.NotNil(t, got, zone)
				require.Equal(t, name, got.Name)
			}
		}
		for addr, want := range map[string]string{"192.0.2.9": "second", "127.9.8.7": "lo", "fe80::5%lo": "",
			"192.0.2.8": "", "fe80::6%second": ""} {
			got, err := sockio.InterfaceOf(netip.MustParseAddr(addr))
			require.NoError(t, err)
			require.Equal(t, want != "", got != nil, addr)
			if got != nil {
				require.Equal(t, want, got.Name)
			}
		}
	})
}
