package tool

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/transport/cc"
	"github.com/stretchr/testify/require"
)

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range texts {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

var machine = []iface{
	{name: "lo", addrs: addrs("127.0.0.1", "::1")},
	{name: "eth0", addrs: addrs("fe80::1", "2001:db8::7", "10.1.2.3")},
	{name: "eth1", addrs: addrs("10.9.9.9")},
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name   string
		opts   DeviceOptions
		ifaces []iface
		route  netip.Addr
		ipv6   bool
		want   []netip.Addr
		dev    string
	}{
		{name: "first that is not loopback", ifaces: machine, want: addrs("10.1.2.3"), dev: "roce_eth0"},
		{name: "same, IPv6, no link-local", ifaces: machine, ipv6: true, want: addrs("2001:db8::7"), dev: "roce_eth0"},
		{name: "loopback alone", ifaces: machine[:1], want: addrs("127.0.0.1"), dev: "roce_lo"},
		{name: "route to the server", ifaces: machine, route: netip.MustParseAddr("10.9.9.9"),
			want: addrs("10.9.9.9"), dev: "roce_eth1"},
		{name: "route over IPv4, packets over IPv6", ifaces: machine, route: netip.MustParseAddr("10.1.2.3"),
			ipv6: true, want: addrs("2001:db8::7"), dev: "roce_eth0"},
		{name: "same on loopback", ifaces: machine, route: netip.MustParseAddr("127.0.0.1"), ipv6: true,
			want: addrs("::1"), dev: "roce_lo"},
		{name: "server on loopback", ifaces: machine, route: netip.MustParseAddr("127.0.0.1"),
			want: addrs("127.0.0.1"), dev: "roce_lo"},
		{name: "named address", opts: DeviceOptions{Addr: "127.0.0.9"}, ifaces: machine,
			want: addrs("127.0.0.9"), dev: "roce_lo"},
		{name: "several", opts: DeviceOptions{Addr: "10.9.9.9,2001:db8::7"}, ifaces: machine,
			want: addrs("10.9.9.9", "2001:db8::7"), dev: "roce_eth1"},
		{name: "interface", opts: DeviceOptions{Dev: "eth1"}, ifaces: machine, want: addrs("10.9.9.9"),
			dev: "roce_eth1"},
		{name: "device name as printed", opts: DeviceOptions{Dev: "roce_eth1"}, ifaces: machine,
			want: addrs("10.9.9.9"), dev: "roce_eth1"},
		{name: "address for -d", opts: DeviceOptions{Dev: "10.1.2.3"}, ifaces: machine,
			want: addrs("10.1.2.3"), dev: "roce_eth0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.opts.choose(c.ifaces, c.route, c.ipv6)
			require.NoError(t, err)
			require.Equal(t, c.want, got.Addrs)
			require.Equal(t, c.dev, got.Name())
		})
	}
}

func TestChooseRefuses(t *testing.T) {
	for want, opts := range map[string]DeviceOptions{
		"10.1.2.4 is not an address of this machine":      {Addr: "10.1.2.4"},
		`local address "here"`:                            {Addr: "here"},
		`device "rxe0" is neither`:                        {Dev: "rxe0"},
		"there are lo, eth0, eth1":                        {Dev: "rxe0"},
		"10.1.2.4 is not an address of this machine; the": {Dev: "10.1.2.4"},
	} {
		_, err := opts.choose(machine, netip.Addr{}, false)
		require.ErrorContains(t, err, want)
	}
	_, err := (&DeviceOptions{Dev: "eth1"}).choose(machine, netip.Addr{}, true)
	require.ErrorContains(t, err, "interface eth1 has no IPv6 address")
	_, err = (&DeviceOptions{}).choose(nil, netip.Addr{}, false)
	require.Error(t, err)
	_, err = (&DeviceOptions{Addr: "10.1.2.4"}).choose(nil, netip.Addr{}, false)
	require.ErrorContains(t, err, "it has none")
}

func TestChooseOnThisMachine(t *testing.T) {
	p, err := (&DeviceOptions{}).Choose("127.0.0.5", false)
	require.NoError(t, err)
	require.Equal(t, addrs("127.0.0.1"), p.Addrs)
}

func TestLinkOption(t *testing.T) {
	var d DeviceOptions
	_, err := getopt.Parse(d.Options(), []string{"--link=udp", "--polling", "--no-gso"})
	require.NoError(t, err)
	require.Equal(t, DeviceOptions{Link: "udp", Polling: true, NoGSO: true}, d)
	d = DeviceOptions{}
	_, err = getopt.Parse(d.Options(), []string{"--cc", "dcqcn-mellanox", "--cc-rate=25", "--cc-nak"})
	require.NoError(t, err)
	require.Equal(t, cc.Config{Algorithm: cc.DCQCNMellanox, LineRate: 25 * cc.Gbps, CutOnNAK: true}, d.congestion("lo"))
	_, err = getopt.Parse(d.Options(), []string{"--cc=cubic"})
	require.ErrorContains(t, err, "dcqcn-paper")
	require.Zero(t, (&DeviceOptions{CCRate: 25}).congestion("lo"))
	for _, link := range []string{"packet", "xdp"} {
		_, err = getopt.Parse(d.Options(), []string{"--link", link})
		require.NoError(t, err)
		require.Equal(t, link, d.Link)
	}
	_, err = getopt.Parse(d.Options(), []string{"--link", "token-ring"})
	require.ErrorContains(t, err, "token-ring")
}
