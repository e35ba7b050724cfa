package doctor

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/stretchr/testify/require"
)

// realRules are rules as people write them, what the kernel does to a packet that comes to UDP port
// 4791 unasked, and what the doctor says.
var realRules = []struct {
	name, tool, script string
	passes             bool
	level              Level
	found              string
}{
	{"none", "nft", "", true, OK, "no rule here keeps UDP port 4791 out, or in"},
	{"policy", "nft", `table inet f { chain i { type filter hook input priority 0; policy drop; ct state established,related accept; iif lo accept; tcp dport 22 accept; } }`,
		false, Fail, "chain i of table inet f, hook input drops what no rule accepts"},
	{"policy and the port", "nft",
		`table inet f { chain i { type filter hook input priority 0; policy drop; ct state established,related accept; udp dport 4791 accept; } }`,
		true, OK, "no rule"},
	{"policy and a range", "nft",
		`table inet f { chain i { type filter hook input priority 0; policy drop; udp dport { 53, 4000-5000 } accept; } }`,
		true, OK, "no rule"},
	{"policy and all UDP", "nft",
		`table inet f { chain i { type filter hook input priority 0; policy drop; meta l4proto udp accept; } }`,
		true, OK, "no rule"},
	{"policy and TCP", "nft",
		`table inet f { chain i { type filter hook input priority 0; policy drop; meta l4proto tcp accept; tcp dport 4791 accept; } }`,
		false, Fail, "drops what no rule accepts"},
	{"the port", "nft", `table ip f { chain i { type filter hook input priority 0; udp dport 4791 drop; } }`,
		false, Fail, "rule 1 in chain i of table ip f, hook input drops UDP port 4791"},
	{"all but some ports", "nft",
		`table ip f { chain i { type filter hook input priority 0; udp dport != { 53, 123 } reject; } }`,
		false, Fail, "drops"},
	{"all but the port", "nft", `table ip f { chain i { type filter hook input priority 0; udp dport != 4791 drop; } }`,
		true, OK, "no rule"},
	{"a named set", "nft",
		`table ip f { set bad { type inet_service; elements = { 1, 4791 }; } chain i { type filter hook input priority 0; udp dport @bad drop; } }`,
		false, Fail, "rule 1 in chain i of table ip f, hook input drops UDP port 4791"},
	{"a verdict map", "nft",
		`table inet f { chain i { type filter hook input priority 0; udp dport vmap { 53 : accept, 4791 : drop }; } }`,
		false, Fail, "rule 1 in chain i of table inet f, hook input drops UDP port 4791"},
	{"all UDP", "nft", `table inet f { chain i { type filter hook input priority 0; meta l4proto udp counter drop; } }`,
		false, Fail, "rule 1 in chain i of table inet f, hook input drops all that comes to it"},
	{"what is new", "nft",
		`table inet f { chain i { type filter hook input priority 0; tcp dport 22 accept; ct state new counter drop; } }`,
		false, Fail, "rule 2 in chain i of table inet f, hook input drops all that comes to it"},
	{"what is invalid", "nft", `table inet f { chain i { type filter hook input priority 0; ct state invalid drop; } }`,
		true, OK, "no rule"},
	{"the last rule", "nft",
		`table inet f { chain i { type filter hook input priority 0; tcp dport 22 accept; reject; } }`, false,
		Fail, "rule 2 in chain i of table inet f, hook input drops all"},
	{"prerouting", "nft",
		`table inet f { chain p { type filter hook prerouting priority -300; udp dport 4791 drop; } }`, false,
		Fail, "rule 1 in chain p of table inet f, hook prerouting drops UDP port 4791"},
	{"a chain that is jumped to", "nft",
		`table inet f { chain in { udp dport 4791 drop; } chain i { type filter hook input priority 0; jump in; } }`,
		false, Fail, "rule 1 in chain in of table inet f, to which i jumps drops UDP port 4791"},
	{"what goes out", "nft", `table inet f { chain o { type filter hook output priority 0; udp dport 4791 drop; } }`,
		true, Fail, "rule 1 in chain o of table inet f, hook output drops UDP port 4791"},
	{"somebody else", "nft",
		`table ip f { chain i { type filter hook input priority 0; ip saddr 192.0.2.99 udp dport 4791 drop; } }`, true,
		Warn, "drops some of what comes in to UDP port 4791"},
	{"policy", "iptables",
		"-P INPUT DROP\n-A INPUT -m state --state ESTABLISHED -j ACCEPT\n-A INPUT -p tcp --dport 4791 -j ACCEPT", false,
		Fail, "drops what no rule accepts"},
	{"policy and the port", "iptables", "-P INPUT DROP\n-A INPUT -p udp -m udp --dport 4791 -j ACCEPT",
		true, OK, "no rule"},
	{"many ports", "iptables", "-A INPUT -p udp -m multiport --dports 53,4000:5000 -j DROP", false, Fail,
		"rule 1 in chain INPUT of table filter (iptables) drops UDP port 4791"},
	{"reject at the end", "iptables",
		"-A INPUT -p icmp -j ACCEPT\n-A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT\n-A INPUT -j REJECT --reject-with icmp-host-prohibited",
		false, Fail, "rule 3 in chain INPUT of table filter (iptables) drops all that comes to it"},
	{"not the port", "iptables", "-A INPUT -p udp ! --dport 4791 -j DROP", true, OK, "no rule"},
	{"only IPv6", "nft", `table ip6 f { chain i { type filter hook input priority 0; udp dport 4791 drop; } }`, true,
		Fail, "rule 1 in chain i of table ip6 f, hook input drops UDP port 4791"},
	{"ingress", "nft",
		`table netdev f { chain i { type filter hook ingress device veth0 priority 0; udp dport 4791 drop; } }`, false,
		Fail, "rule 1 in chain i of table netdev f, hook ingress drops UDP port 4791"},
	{"two chains", "nft", `table inet f { chain p { type filter hook prerouting priority -150; udp dport 4791 drop; } chain i { type filter hook input priority 0; policy drop; } }`,
		false, Fail, "rule 1 in chain p of table inet f, hook prerouting drops"},
	{"a share", "nft",
		`table inet f { chain i { type filter hook input priority 0; udp dport 4791 numgen inc mod 10 5 drop; } }`,
		true, Warn, "or by rate or chance"},
	{"a far chain", "nft",
		`table inet f { chain b { drop; } chain a { meta l4proto udp goto b; } chain i { type filter hook input priority 0; jump a; } }`,
		false, Fail, "rule 1 in chain b of table inet f, to which i jumps drops all that comes to it"},
	{"other names", "nft",
		`table inet my-table { chain the_chain { type filter hook input priority 10; policy drop; icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept; } }`,
		false, Fail, "chain the_chain of table inet my-table, hook input drops what no rule accepts"},
	{"raw", "iptables", "-t raw -A PREROUTING -p udp --dport 4791 -j DROP", false, Fail,
		"rule 1 in chain PREROUTING of table raw (iptables) drops UDP port 4791"},
	{"a chain of their own", "iptables", "-N own\n-A INPUT -j own\n-A own -p tcp -j ACCEPT\n-A own -j DROP",
		false, Fail, "rule 2 in chain own of table filter (iptables), to which INPUT jumps drops all that comes to it"},
	{"what goes out", "iptables", "-A OUTPUT -p udp --dport 4791 -j REJECT", true, Fail,
		"rule 1 in chain OUTPUT of table filter (iptables) drops UDP port 4791"},
	{"what goes out", "ip6tables", "-P OUTPUT DROP", true, Fail,
		"chain OUTPUT of table filter (ip6tables) drops what no rule accepts"},
	{"the port", "iptables-legacy", "-A INPUT -p udp --dport 4791 -j DROP", false, Fail,
		"rule 1 in chain INPUT of table filter (iptables-legacy) drops UDP port 4791"},
}

// The rules of real firewalls, loaded into the kernel: the doctor says what becomes of a packet.
func TestFirewallTools(t *testing.T) {
	if testing.Short() {
		t.Skip("short: 35 pairs of network namespaces take seconds")
	}
	for _, c := range realRules {
		t.Run(c.tool+", "+c.name, func(t *testing.T) {
			path, err := exec.LookPath(c.tool)
			if err != nil {
				t.Skipf("%s is not installed (Debian: apt install nftables iptables)", c.tool)
			}
			n := linktest.NewNet(t, 1500)
			// Policies drop what asks for neighbours of IPv6, too.
			n.A.IP("neigh replace " + n.B6.String() + " lladdr " + n.MACB + " dev veth0 nud permanent")
			n.B.IP("neigh replace " + n.A6.String() + " lladdr " + n.MACA + " dev veth0 nud permanent")
			load(t, n.B, path, c.tool, c.script)
			require.Equal(t, c.passes, arrives(t, n, c.passes), "what the kernel does")
			all := in(t, n.B, target{iface: linktest.Device}, "firewall")
			want(t, all, c.level, c.found)
			if c.level <= Unknown {
				return
			}
			// The printed commands mend it, wherever the rule is, and in both directions and
			// families.
			mend(t, n.B, all)
			want(t, in(t, n.B, target{iface: linktest.Device}, "firewall"), OK, "no rule here")
			require.True(t, arrives(t, n, true), "after the printed command")
			for _, p := range [][2]netip.Addr{{n.B4, n.A4}, {n.B6, n.A6}} {
				linktest.AwaitPort(t, n.B, p[0], n.A, p[1], ib.UDPPort)
				linktest.AwaitPort(t, n.A, p[1], n.B, p[0], ib.UDPPort)
			}
		})
	}
}

// load loads rules into a namespace; where the kernel has not what they need, the test is skipped.
func load(t *testing.T, ns *linktest.Namespace, path, tool, script string) {
	t.Helper()
	var cmds [][]string
	if tool == "nft" {
		file := filepath.Join(t.TempDir(), "rules")
		require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(script, "; }", ";\n}\n")), 0o644))
		cmds = [][]string{{path, "-f", file}}
	} else {
		for line := range strings.Lines(script) {
			cmds = append(cmds, append([]string{path}, strings.Fields(line)...))
		}
	}
	problem := ""
	ns.Do(func() {
		for _, c := range cmds {
			if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
				problem = fmt.Sprintf("%v: %s", err, out)
				return
			}
		}
	})
	require.NotContains(t, problem, "syntax error")
	if problem != "" {
		t.Skip("this kernel does not load the rules: ", problem)
	}
}

// arrives sends a datagram to UDP port 4791 of B and reports whether it comes. One that should come
// is waited for; that one does not come is believed soon.
func arrives(t *testing.T, n *linktest.Net, should bool) bool {
	t.Helper()
	var to, from *net.UDPConn
	var err error
	n.B.Do(func() { to, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(n.B4, ib.UDPPort))) })
	require.NoError(t, err)
	defer to.Close()
	n.A.Do(func() { from, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(n.A4, 50000))) })
	require.NoError(t, err)
	defer from.Close()
	wait := 200 * time.Millisecond
	if should {
		wait = giveUp
	}
	_, err = from.WriteToUDPAddrPort([]byte("unasked"), netip.AddrPortFrom(n.B4, ib.UDPPort))
	require.NoError(t, err)
	require.NoError(t, to.SetReadDeadline(time.Now().Add(wait)))
	_, _, err = to.ReadFromUDPAddrPort(make([]byte, 100))
	return err == nil
}

// What dcb says of an interface whose driver has no data centre bridging, as that of veth.
func TestDCBTool(t *testing.T) {
	if _, err := exec.LookPath("dcb"); err != nil {
		t.Skip("dcb is not installed (Debian: apt install iproute2, 6.1 or later)")
	}
	n := linktest.NewNet(t, 1500)
	want(t, in(t, n.A, target{iface: linktest.Device}, "pfc"), Note, "the driver has no PFC")
}
