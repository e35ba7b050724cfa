package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/stretchr/testify/require"
)

// host is a machine for tests: what thisSystem asks the kernel for is in its fields.
type host struct {
	files    fstest.MapFS
	ifaces   []Interface
	features map[uint32]error // nil: on; errOff: off
	limits   map[int]uint64
	open     map[string]error // by address
	caps     link.Capabilities
	commands map[string]string // output by command line
	failures map[string]error
	cpus     []int

	owners    map[string][]string
	ownersErr error
}

var errOff = errors.New("off")

// healthy is a machine on which nothing is to be said.
func healthy() *host {
	h := &host{
		files: fstest.MapFS{},
		ifaces: []Interface{
			{Name: "lo", Index: 1, MTU: 65536, Up: true, Running: true, Loopback: true,
				Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
			{Name: "eth0", Index: 2, MTU: 4200, Up: true, Running: true, Addrs: []netip.Addr{
				netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fe80::1"), netip.MustParseAddr("2001:db8::1"),
			},
				Nets: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24"), netip.MustParsePrefix("2001:db8::1/64")}},
		},
		limits: map[int]uint64{unix.RLIMIT_NOFILE: 4096, unix.RLIMIT_MEMLOCK: math.MaxUint64},
		caps: link.Capabilities{Slot: ib.Slot{Index: 3, Bits: 6}, ECN: true, RecvBufferBytes: 32 << 20,
			SendBufferBytes: 32 << 20},
		commands: map[string]string{
			"nft -j list ruleset":           `{"nftables": [{"metainfo": {"version": "1.0.6"}}]}`,
			"dcb -j pfc show dev eth0":      `{"ifname":"eth0","pfc-cap":8,"macsec-bypass":false,"delay":0,"prio-pfc":[false,false,false,true,false,false,false,false]}`,
			"dcb -j app show dev eth0":      `{"ifname":"eth0","dscp_prio":[[26,3]]}`,
			"ip -o -4 route show table all": "default via 10.0.0.254 dev eth0 \n10.0.0.0/24 dev eth0 proto kernel scope link src 10.0.0.1 \n",
			"ip -o -6 route show table all": "2001:db8::/64 dev eth0 proto kernel metric 256 pref medium\n",
			"iptables-save":                 "*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n",
			"ip6tables-save":                "*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n",
		},
		failures: map[string]error{},
		cpus:     []int{0, 1},
	}
	h.set("proc/thread-self/net/udp", udpHeader)
	h.set("proc/thread-self/net/udp6", udpHeader)
	h.set("proc/thread-self/net/if_inet6", "20010db8000000000000000000000001 02 40 00 80 eth0\n")
	h.set("proc/thread-self/status", "Name:\troce\nCapEff:\t000001ffffffffff\n")
	h.set("proc/sys/net/core/rmem_max", "16777216")
	h.set("proc/sys/net/core/wmem_max", "16777216")
	h.set("proc/sys/net/core/default_qdisc", "fq_codel")
	h.set("proc/sys/net/ipv4/tcp_ecn", "2")
	h.set("proc/sys/net/ipv4/conf/all/rp_filter", "0")
	h.set("proc/sys/net/ipv4/conf/eth0/rp_filter", "2")
	h.set("sys/class/net/eth0/ifindex", "2")
	h.set("sys/class/net/eth0/device/numa_node", "0")
	h.set("sys/devices/system/node/online", "0-1")
	h.set("sys/devices/system/node/node0/cpulist", "0-3")
	h.set("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance")
	h.set("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance")
	h.set("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
	return h
}

const udpHeader = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n"

// udpLine is one of /proc/net/udp: port 4791 is 12B7.
func udpLine(user int, inode string) string {
	return fmt.Sprintf("  10: 0100000A:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000 %5d        0 %s 2 0000000000000000 0\n", user, inode)
}

func (h *host) set(name, text string) { h.files[name] = &fstest.MapFile{Data: []byte(text + "\n")} }

// deny makes a file unreadable.
func (h *host) deny(name string) { h.files[name] = &fstest.MapFile{Mode: denied} }

// denied marks files that guarded refuses to open.
const denied = fs.ModeIrregular

type guarded struct{ fstest.MapFS }

func (g guarded) Open(name string) (fs.File, error) {
	if f := g.MapFS[name]; f != nil && f.Mode&denied != 0 {
		return nil, &fs.PathError{Op: "open", Path: "/" + name, Err: fs.ErrPermission}
	}
	return g.MapFS.Open(name)
}

func (g guarded) ReadFile(name string) ([]byte, error) {
	if _, err := g.Open(name); err != nil {
		return nil, err
	}
	return g.MapFS.ReadFile(name)
}

func (h *host) system() *System {
	return &System{
		FS:         guarded{h.files},
		Interfaces: func() ([]Interface, error) { return h.ifaces, nil },
		Feature: func(_ string, command uint32) (bool, error) {
			err := h.features[command]
			if errors.Is(err, errOff) {
				return false, nil
			}
			return err == nil, err
		},
		Limit: func(resource int) (uint64, error) {
			n, ok := h.limits[resource]
			if !ok {
				return 0, unix.EPERM
			}
			return n, nil
		},
		Open: func(a netip.Addr) (link.Capabilities, error) { return h.caps, h.open[a.String()] },
		Owners: func(_ context.Context, _ *Interface, a netip.Addr) ([]string, error) {
			return h.owners[a.String()], h.ownersErr
		},
		Run: func(_ context.Context, name string, args ...string) ([]byte, error) {
			line := strings.Join(append([]string{name}, args...), " ")
			if err := h.failures[line]; err != nil {
				return nil, err
			}
			out, ok := h.commands[line]
			if !ok {
				return nil, fs.ErrNotExist
			}
			return []byte(out), nil
		},
		CPUs: func() ([]int, error) {
			if h.cpus == nil {
				return nil, unix.ENOSYS
			}
			return h.cpus, nil
		},
		User: 1000,
	}
}

// A healthy machine passes every check, and every check has said something.
func TestHealthy(t *testing.T) {
	all, err := examine(t.Context(), healthy().system(), target{}, nil)
	require.NoError(t, err)
	said := map[string]bool{}
	for _, f := range all {
		require.Equal(t, OK, f.Level, "%+v", f)
		require.Empty(t, f.Mend, "%+v", f)
		said[f.Check] = true
	}
	for _, c := range checks {
		require.True(t, said[c.name], c.name)
	}
	require.Zero(t, exitStatus(all))
}

// sick are machines with one thing wrong each, and what is said of it.
var sick = []struct {
	name  string
	check string
	spoil func(h *host)
	level Level
	found string // in Found
	mend  string // in a command of Mend; empty: there is none
}{
	{"no address", "address", func(h *host) { h.ifaces[1].Addrs = h.ifaces[1].Addrs[1:2]; h.ifaces[0].Addrs = nil },
		Fail, "no interface has an address", "ip addr add"},
	{"loopback only", "address", func(h *host) { h.ifaces[1].Up, h.ifaces[1].Addrs = false, nil }, Warn,
		"only loopback", "ip addr add 192.0.2.1/24 dev eth0 && ip link set eth0 up"},
	{"nothing but loopback", "address", func(h *host) { h.ifaces = h.ifaces[:1] }, Warn, "only loopback", "ip link"},
	{"duplicate address", "address", func(h *host) {
		h.set("proc/thread-self/net/if_inet6", "20010db8000000000000000000000001 02 40 00 88 eth0")
	}, Fail, "2001:db8::1 is used by another machine", "ip addr del 2001:db8::1/64 dev eth0"},
	{"tentative address", "address", func(h *host) {
		h.set("proc/thread-self/net/if_inet6", "20010db8000000000000000000000001 02 40 00 c0 eth0")
	}, Warn, "still being tested", "sleep"},

	{"switched off", "interface", func(h *host) { h.ifaces[1].Up = false }, Fail, "switched off",
		"ip link set eth0 up"},
	{"no carrier", "interface", func(h *host) { h.ifaces[1].Running = false }, Fail, "no carrier", "ethtool eth0"},
	{"one of two off", "interface", func(h *host) {
		h.ifaces = append(h.ifaces,
			Interface{Name: "eth1", MTU: 4200, Addrs: []netip.Addr{netip.MustParseAddr("10.1.0.1")}})
	}, Warn, "switched off", "ip link set eth1 up"},

	{"rxe has the port", "rxe", func(h *host) { h.set("proc/thread-self/net/udp", udpHeader+udpLine(0, "0")) }, Fail,
		"rdma_rxe) has UDP port 4791", "modprobe -r rdma_rxe"},
	{"rxe is loaded", "rxe", func(h *host) { h.set("sys/module/rdma_rxe/refcnt", "0") }, Note,
		"loaded and has no socket", ""},
	{"sockets unreadable", "rxe", func(h *host) { h.deny("proc/thread-self/net/udp") }, Unknown,
		"cannot be read", "sudo"},

	{"port taken", "port", func(h *host) {
		h.open = map[string]error{"10.0.0.1": &link.OpenError{Err: unix.EADDRINUSE, Hint: "something else uses it"}}
		h.set("proc/thread-self/net/udp", udpHeader+udpLine(7, "4242"))
		h.set("proc/77/comm", "other")
		h.files["proc/77/fd/5"] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("socket:[4242]")}
	}, Fail, "taken by process 77 (other) of user 7", "kill 77"},
	{"port taken by somebody", "port", func(h *host) {
		h.open = map[string]error{"10.0.0.1": &link.OpenError{Err: syscall.EADDRINUSE}}
	}, Fail, "address already in use", "ss -ulpn"},
	{"no socket", "port", func(h *host) { h.open = map[string]error{"10.0.0.1": &link.OpenError{Err: unix.EPERM}} },
		Fail, "operation not permitted", ""},
	{"address not shared", "port", func(h *host) { h.caps.Slot = ib.Slot{} }, Note, "not beside another one", ""},

	{"nft policy", "firewall", func(h *host) {
		h.commands["nft -j list ruleset"] = `{"nftables": [{"chain": {"family": "inet", "table": "filter", "name": "input", "type": "filter", "hook": "input", "prio": 0, "policy": "drop"}}]}`
	}, Fail, "chain input of table inet filter, hook input drops what no rule accepts",
		"nft insert rule inet filter input udp dport 4791 accept"},
	{"nft rule", "firewall", func(h *host) {
		h.commands["nft -j list ruleset"] = `{"nftables": [{"chain": {"family": "ip", "table": "f", "name": "c", "hook": "input", "policy": "accept"}}, {"rule": {"family": "ip", "table": "f", "chain": "c", "expr": [{"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": {"set": [53, {"range": [4700, 4800]}]}}}, {"drop": null}]}}]}`
	}, Fail, "rule 1 in chain c of table ip f, hook input drops UDP port 4791",
		"nft insert rule ip f c udp dport 4791 accept"},
	{"nft last rule", "firewall", func(h *host) {
		h.commands["nft -j list ruleset"] = `{"nftables": [{"chain": {"family": "ip", "table": "f", "name": "c", "hook": "input", "policy": "accept"}}, {"rule": {"family": "ip", "table": "f", "chain": "c", "expr": [{"counter": {"packets": 1, "bytes": 2}}, {"reject": null}]}}]}`
	}, Fail, "rule 1 in chain c of table ip f, hook input drops all that comes to it", "nft insert rule ip f c"},
	{"nft for some", "firewall", func(h *host) {
		h.commands["nft -j list ruleset"] = `{"nftables": [{"chain": {"family": "ip", "table": "f", "name": "c", "hook": "input", "policy": "drop"}}, {"rule": {"family": "ip", "table": "f", "chain": "c", "expr": [{"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": "10.0.0.9"}}, {"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": 4791}}, {"accept": null}]}}]}`
	}, Note, "rule 1 accepts it for some addresses", "nft insert rule ip f c"},
	{"nft out", "firewall", func(h *host) {
		h.commands["nft -j list ruleset"] = `{"nftables": [{"chain": {"family": "ip6", "table": "f", "name": "o", "hook": "output", "policy": "drop"}}]}`
	}, Fail, "chain o of table ip6 f, hook output drops what no rule accepts",
		"nft insert rule ip6 f o udp dport 4791 accept"},
	{"iptables policy", "firewall", func(h *host) {
		h.commands["iptables-save"] =
			"*filter\n:INPUT DROP [0:0]\n-A INPUT -p tcp -m tcp --dport 4791 -j ACCEPT\nCOMMIT\n"
	}, Fail, "chain INPUT of table filter (iptables) drops what no rule accepts",
		"iptables -t filter -I INPUT -p udp --dport 4791 -j ACCEPT"},
	{"iptables rule", "firewall", func(h *host) {
		h.commands["iptables-save"] = "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -p tcp -m comment --comment \"a -j DROP\" -j ACCEPT\n-A INPUT -p udp -m multiport --dports 1,4000:5000 -j DROP\nCOMMIT\n"
	}, Fail, "rule 2 in chain INPUT of table filter (iptables) drops UDP port 4791", "iptables -t filter -I INPUT"},
	{"ip6tables out", "firewall", func(h *host) {
		h.commands["ip6tables-save"] = "*filter\n:OUTPUT ACCEPT [0:0]\n:x - [0:0]\n-A OUTPUT -p udp -g x\n-A x -j REJECT --reject-with icmp6-port-unreachable\nCOMMIT\n"
	}, Fail, "rule 1 in chain x of table filter (ip6tables), to which OUTPUT jumps drops all",
		"ip6tables -t filter -I x -p udp --dport 4791 -j ACCEPT"},

	{"route MTU", "mtu", func(h *host) {
		h.commands["ip -o -4 route show table all"] =
			"10.0.0.0/24 dev eth0 proto kernel scope link src 10.0.0.1 linkdown mtu lock 600 advmss 500 \n"
	}, Fail, "the route 10.0.0.0/24 has MTU 600, which carries path MTU 512",
		"ip route change 10.0.0.0/24 dev eth0 proto kernel scope link src 10.0.0.1 advmss 500"},
	{"route MTU of IPv6", "mtu", func(h *host) {
		h.commands["ip -o -6 route show table all"] = "default via fe80::1 dev eth0 metric 1024 mtu 1280 pref medium\n"
	}, Fail, "the route default has MTU 1280",
		"ip -6 route change default via fe80::1 dev eth0 metric 1024 pref medium"},
	{"no ip", "mtu", func(h *host) { delete(h.commands, "ip -o -6 route show table all") }, Unknown,
		"ip (of iproute2) is not installed", ""},
	{"two ports", "rp-filter", twoPorts(1, 0), Fail,
		"rp_filter is strict, and eth0 has addresses of the same network 10.0.0.0/24",
		"sysctl -w net.ipv4.conf.eth1.rp_filter=2"},
	{"two ports, all", "rp-filter", twoPorts(0, 1), Fail, "rp_filter is strict",
		"sysctl -w net.ipv4.conf.eth1.rp_filter=2"},
	{"filter has dropped", "rp-filter", func(h *host) {
		h.set("proc/sys/net/ipv4/conf/eth0/rp_filter", "1")
		h.set("proc/thread-self/net/netstat", "TcpExt: SyncookiesSent IPReversePathFilter\nTcpExt: 0 12")
	}, Warn, "has dropped 12 packets", "sysctl -w net.ipv4.conf.eth0.rp_filter=2"},
	{"filter unreadable", "rp-filter", func(h *host) { h.deny("proc/sys/net/ipv4/conf/eth0/rp_filter") },
		Unknown, "cannot be read", "sudo"},
	{"twice", "duplicate", func(h *host) { h.owners = map[string][]string{"10.0.0.1": {"02:00:00:00:00:07"}} }, Fail,
		"10.0.0.1 is an address of another machine too: 02:00:00:00:00:07", "ip addr del 10.0.0.1/24 dev eth0"},
	{"not asked", "duplicate", func(h *host) { h.ownersErr = unix.EPERM }, Unknown, "needs CAP_NET_RAW",
		"sudo roce doctor --only duplicate"},
	{"not answered", "duplicate", func(h *host) { h.ownersErr = unix.ENETDOWN }, Unknown,
		"who has 10.0.0.1 cannot be read", ""},
	{"frames damaged", "damage", func(h *host) { h.set("sys/class/net/eth0/statistics/rx_crc_errors", "4") },
		Warn, "4 frames came with a wrong checksum", "ethtool -S eth0"},
	{"datagrams damaged", "damage", func(h *host) {
		h.set("proc/thread-self/net/snmp", "Udp: InDatagrams InCsumErrors\nUdp: 9 3")
		h.set("proc/thread-self/net/snmp6", "Udp6InCsumErrors 2")
	}, Warn, "5 datagrams", "ethtool -K INTERFACE tx off"},

	{"no firewall tools", "firewall", func(h *host) { h.commands = nil }, Unknown, "nft is not installed",
		"sudo roce doctor"},
	{"firewall unreadable", "firewall", func(h *host) {
		h.commands = map[string]string{"nft -j list ruleset": "nonsense"}
		h.failures["iptables-save"] = fs.ErrPermission
	}, Unknown, "not what is known of it", "sudo"},

	{"few descriptors", "descriptors", func(h *host) { h.limits[unix.RLIMIT_NOFILE] = 256 }, Warn,
		"256 open files allowed", "ulimit -n"},
	{"limit unreadable", "descriptors", func(h *host) { delete(h.limits, unix.RLIMIT_NOFILE) }, Unknown,
		"cannot be read", "sudo"},

	{"tiny MTU", "mtu", func(h *host) { h.ifaces[1].MTU = 300 }, Fail, "too small", "ip link set eth0 mtu 1500"},
	{"small MTU", "mtu", func(h *host) { h.ifaces[1].MTU = 600 }, Warn, "path MTU 512", "ip link set eth0 mtu 1500"},
	{"usual MTU", "mtu", func(h *host) { h.ifaces[1].MTU = 1500 }, Note, "path MTU 1024", "ip link set eth0 mtu 4200"},

	{"conntrack", "conntrack", conntrack(5, 100), Note, "5 of 100", "notrack"},
	{"conntrack nearly full", "conntrack", conntrack(95, 100), Warn, "95 of 100", "notrack"},
	{"conntrack full", "conntrack", conntrack(100, 100), Fail, "100 of 100", "notrack"},
	{"conntrack unreadable", "conntrack", func(h *host) { h.deny("proc/sys/net/netfilter/nf_conntrack_count") },
		Unknown, "cannot be read", "sudo"},
	{"conntrack nonsense", "conntrack", func(h *host) { h.set("proc/sys/net/netfilter/nf_conntrack_count", "many") },
		Unknown, `"many" is not a number`, ""},

	{"default buffers", "buffers", func(h *host) {
		h.set("proc/thread-self/status", "CapEff:\t0")
		h.set("proc/sys/net/core/rmem_max", "212992")
	}, Warn, "receive 208 KiB", "sysctl -w net.core.rmem_max=16777216"},
	{"smaller buffers", "buffers", func(h *host) {
		h.set("proc/thread-self/status", "CapEff:\t0")
		h.set("proc/sys/net/core/rmem_max", "4194304")
	}, Note, "receive 4 MiB", "sysctl"},
	{"buffers of others", "buffers", func(h *host) { h.set("proc/sys/net/core/rmem_max", "212992") }, Note,
		"receive 208 KiB", "sysctl"},
	{"buffers granted", "buffers", func(h *host) {
		delete(h.files, "proc/sys/net/core/rmem_max")
		h.caps.RecvBufferBytes = 425984
	}, Warn, "a device gets receive 208 KiB", "nsenter"},
	{"buffers unreadable", "buffers", func(h *host) {
		delete(h.files, "proc/sys/net/core/wmem_max")
		h.caps.RecvBufferBytes = 0
	}, Unknown, "cannot be read", ""},

	{"no privileges", "capabilities", func(h *host) { h.set("proc/thread-self/status", "CapEff:\t0000000000000000") },
		Note, "cannot be used: lacks cap_net_raw", "setcap cap_net_raw+ep"},
	{"some privileges", "capabilities", func(h *host) { h.set("proc/thread-self/status", "CapEff:\t0000000000003000") },
		Note, "cannot be used: lacks cap_bpf", "setcap cap_net_admin,cap_bpf,cap_net_raw+ep"},
	{"no AF_XDP", "capabilities", func(h *host) { h.set("proc/sys/kernel/osrelease", "4.15.0-20-generic") },
		Note, "Linux 4.15 has no AF_XDP", ""},
	{"no status", "capabilities", func(h *host) { h.set("proc/thread-self/status", "Name: x") }, Unknown,
		"no CapEff", ""},

	{"GRO off", "offloads", func(h *host) { h.features = map[uint32]error{unix.ETHTOOL_GGRO: errOff} }, Warn,
		"GRO is off", "ethtool -K eth0 gro on"},
	{"checksums off", "offloads", func(h *host) { h.features = map[uint32]error{unix.ETHTOOL_GTXCSUM: errOff} }, Warn,
		"TX checksum is off", "ethtool -K eth0 tx on"},
	{"ethtool refused", "offloads", func(h *host) { h.features = map[uint32]error{unix.ETHTOOL_GGSO: unix.ENODEV} },
		Unknown, "GSO cannot be read", ""},
	{"no offloads", "offloads", func(h *host) {
		no := error(unix.EOPNOTSUPP)
		h.features = map[uint32]error{unix.ETHTOOL_GGRO: no, unix.ETHTOOL_GGSO: no, unix.ETHTOOL_GTXCSUM: no,
			unix.ETHTOOL_GRXCSUM: no}
	}, Unknown, "does not tell", ""},
	{"runs to a packet link", "offloads", func(h *host) { h.veth("6.1.0-56-amd64", "on") }, Note,
		"6.1 loses runs of packets that a udp link here sends to packet links and xdp links",
		"ethtool -K eth0 tx-udp-segmentation off"},
	{"runs to an xdp link", "offloads", func(h *host) { h.veth("6.2.0", "on") }, Note,
		"sends to xdp links in generic mode", "tx-udp-segmentation off"},
	{"no ethtool", "offloads", func(h *host) { h.veth("5.15.0", "") }, Note, "5.15 loses runs",
		"tx-udp-segmentation off"},

	{"no ECN", "ecn", func(h *host) { h.caps.ECN = false }, Warn, "neither set nor read", ""},
	{"ECN not tried", "ecn", func(h *host) { h.open = map[string]error{"10.0.0.1": unix.EPERM} }, Unknown,
		"no device could be opened", ""},
	{"queue drops", "ecn", func(h *host) { h.set("proc/sys/net/core/default_qdisc", "pfifo_fast") }, Note,
		"drops and never marks", "default_qdisc=fq_codel"},
	{"card's ECN", "ecn", func(h *host) {
		h.set("sys/class/net/eth0/ecn/roce_np/enable/2", "1")
		h.set("sys/class/net/eth0/ecn/roce_np/enable/3", "0")
	}, Note, "priorities 3", "ecn/roce_np/enable/3"},

	{"no dcb", "pfc", func(h *host) { delete(h.commands, "dcb -j pfc show dev eth0") }, Unknown, "not installed", ""},
	{"no PFC", "pfc", func(h *host) {
		h.failures["dcb -j pfc show dev eth0"] = errors.New("Attribute read: Operation not supported")
	}, Note, "the driver has no PFC", ""},
	{"PFC off", "pfc", func(h *host) {
		h.commands["dcb -j pfc show dev eth0"] = `{"prio-pfc":[false,false,false,false,false,false,false,false]}`
	}, Note, "off for all", "prio-pfc 3:on"},
	{"PFC failed", "pfc", func(h *host) { h.failures["dcb -j pfc show dev eth0"] = fs.ErrPermission },
		Unknown, "cannot be read", "sudo"},
	{"PFC nonsense", "pfc", func(h *host) { h.commands["dcb -j pfc show dev eth0"] = `{"prio-pfc":"on"}` },
		Unknown, "not what is known", ""},
	{"no DSCP", "pfc", func(h *host) { h.commands["dcb -j app show dev eth0"] = `{"ifname":"eth0"}` }, Note,
		"no DSCP", "dscp-prio"},
	{"DSCP nonsense", "pfc", func(h *host) { h.commands["dcb -j app show dev eth0"] = `[` }, Unknown,
		"DSCPs cannot be read", ""},

	{"memlock", "memlock", func(h *host) {
		h.limits[unix.RLIMIT_MEMLOCK] = 64 << 10
		h.set("proc/thread-self/status", "CapEff:\t0")
	}, Note, "64 KiB may be locked", "ulimit -l"},
	{"memlock unreadable", "memlock", func(h *host) { delete(h.limits, unix.RLIMIT_MEMLOCK) }, Unknown,
		"cannot be read", ""},

	{"other node", "numa", func(h *host) { h.cpus = []int{3, 4} }, Note, "node 0 of 2", "numactl --cpunodebind=0"},
	{"other namespace", "numa", func(h *host) { h.set("sys/class/net/eth0/ifindex", "9") }, Unknown,
		"another network namespace", ""},
	{"not in sysfs", "numa", func(h *host) { delete(h.files, "sys/class/net/eth0/ifindex") }, Unknown,
		"does not show it", ""},
	{"no list of nodes", "numa", func(h *host) { delete(h.files, "sys/devices/system/node/online") }, Unknown,
		"cannot be read", ""},
	{"odd list of nodes", "numa", func(h *host) { h.set("sys/devices/system/node/online", "0-") }, Unknown,
		"not a list", ""},
	{"affinity unreadable", "numa", func(h *host) { h.cpus = nil }, Unknown, "cannot be read", ""},

	{"powersave", "governor", func(h *host) {
		h.set("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave")
	}, Note, "powersave on 1 CPUs", "cpupower"},
	{"no governor", "governor", func(h *host) {
		delete(h.files, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
		delete(h.files, "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor")
		h.set("sys/devices/system/cpu/online", "0-1")
	}, Unknown, "not this system's", ""},

	{"no huge pages", "hugepages", func(h *host) {
		h.set("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]")
	}, Note, "never", "madvise"},
	{"no such kernel", "hugepages", func(h *host) { delete(h.files, "sys/kernel/mm/transparent_hugepage/enabled") },
		Note, "no transparent", ""},
	{"odd huge pages", "hugepages",
		func(h *host) { h.set("sys/kernel/mm/transparent_hugepage/enabled", "yes") }, Unknown, "yes", ""},
	{"huge pages denied", "hugepages", func(h *host) { h.deny("sys/kernel/mm/transparent_hugepage/enabled") },
		Unknown, "permission denied", "sudo"},
}

// twoPorts is a machine with two ports in one network.
func twoPorts(own, all int) func(h *host) {
	return func(h *host) {
		h.ifaces = append(h.ifaces, Interface{Name: "eth1", Index: 3, MTU: 4200, Up: true, Running: true,
			Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.11")},
			Nets:  []netip.Prefix{netip.MustParsePrefix("10.0.0.11/24")}})
		h.set("proc/sys/net/ipv4/conf/all/rp_filter", fmt.Sprint(all))
		h.set("proc/sys/net/ipv4/conf/eth1/rp_filter", fmt.Sprint(own))
	}
}

func conntrack(n, limit int) func(h *host) {
	return func(h *host) {
		h.set("proc/sys/net/netfilter/nf_conntrack_count", fmt.Sprint(n))
		h.set("proc/sys/net/netfilter/nf_conntrack_max", fmt.Sprint(limit))
	}
}

func TestSick(t *testing.T) {
	for _, c := range sick {
		t.Run(c.check+" "+c.name, func(t *testing.T) {
			h := healthy()
			c.spoil(h)
			all, err := examine(t.Context(), h.system(), target{}, []string{c.check})
			require.NoError(t, err)
			for _, f := range all {
				if f.Level != c.level || !strings.Contains(f.Found, c.found) {
					continue
				}
				require.Equal(t, c.check, f.Check)
				if c.level > Unknown {
					require.NotEmpty(t, f.Why, "%+v", f)
				}
				if c.mend == "" {
					return
				}
				require.Contains(t, strings.Join(f.Mend, "\n"), c.mend)
				return
			}
			t.Fatalf("no finding %v with %q: %+v", c.level, c.found, all)
		})
	}
}

// Every check can fail: there is a sick machine for each.
func TestEveryCheckHasASickMachine(t *testing.T) {
	bad := map[string]bool{}
	for _, c := range sick {
		if c.level != Unknown {
			bad[c.check] = true
		}
	}
	for _, c := range checks {
		require.True(t, bad[c.name], c.name)
	}
}

// veth makes a machine with this kernel and a virtual interface, of which ethtool says whether runs
// leave whole.
func (h *host) veth(release, segmentation string) *host {
	delete(h.files, "sys/class/net/eth0/device/numa_node")
	h.set("proc/sys/kernel/osrelease", release)
	if segmentation != "" {
		h.commands["ethtool -k eth0"] = "Features for eth0:\ntx-gso-partial: off [fixed]\ntx-udp-segmentation: " +
			segmentation + "\n"
	}
	return h
}

// Of runs that arrive nothing is said.
func TestRunsArrive(t *testing.T) {
	card := healthy()
	card.set("proc/sys/kernel/osrelease", "6.1.0")
	for name, h := range map[string]*host{
		"old kernel": healthy().veth("4.15.0-20-generic", ""), // sends none
		"no kernel":  healthy().veth("", ""),
		"new kernel": healthy().veth("6.6.0-rc1+", "on"),
		"cut up":     healthy().veth("6.1.0", "off"),
		"card":       card,
		"no version": healthy().veth("odd", "on"),
	} {
		t.Run(name, func(t *testing.T) {
			all, err := examine(t.Context(), h.system(), target{}, []string{"offloads"})
			require.NoError(t, err)
			require.Len(t, all, 1)
			require.Equal(t, OK, all[0].Level)
		})
	}
}

// judged is what the doctor says of rules.
func judged(t *testing.T, command, text string) []Finding {
	t.Helper()
	h := healthy()
	h.commands[command] = text
	all, err := examine(t.Context(), h.system(), target{}, []string{"firewall"})
	require.NoError(t, err)
	return all
}

// Rules about other ports, hooks and protocols are no findings.
func TestFirewallInnocent(t *testing.T) {
	for _, text := range []string{
		"*filter\n:INPUT DROP [0:0]\n-A INPUT -p udp -m udp --dport 4791 -j ACCEPT\nCOMMIT\n",
		"*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -p udp -m udp --dport 53 -j DROP\nCOMMIT\n",
		"*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -p tcp -m tcp --dport 4791 -j DROP\nCOMMIT\n",
		"*filter\n:FORWARD DROP [0:0]\n-A FORWARD -p udp -m udp --dport 4791 -j DROP\nCOMMIT\n",
		"*filter\n:INPUT ACCEPT [0:0]\n:x - [0:0]\n-A x -p udp --dport 4791 -j DROP\nCOMMIT\n",
		"*filter\n:INPUT ACCEPT [0:0]\n:x - [0:0]\n-A INPUT -j x\n-A x -p udp -j RETURN\n-A x -j DROP\nCOMMIT\n",
		"*filter\n:INPUT DROP [0:0]\n:x - [0:0]\n-A INPUT -s 10.0.0.0/8 -j LOG\n-A INPUT -j x\n-A x -p udp -j ACCEPT\nCOMMIT\n",
		"*filter\n:INPUT ACCEPT [0:0]\n:x - [0:0]\n-A INPUT -j x\n-A x -j INPUT\nCOMMIT\n", // no kernel has it
		"*nat\n:POSTROUTING ACCEPT [0:0]\n-A POSTROUTING -s 172.17.0.0/16 -j SNAT --to-source 10.0.0.1\n-A POSTROUTING -j MASQUERADE\nCOMMIT\n",
	} {
		require.Equal(t, OK, worst(judged(t, "iptables-save", text)), text)
	}
	for _, text := range []string{
		`{"nftables": [{"chain": {"family": "ip", "table": "f", "name": "c", "hook": "input", "policy": "drop"}}, {"chain": {"family": "ip", "table": "f", "name": "roce"}}, {"rule": {"family": "ip", "table": "f", "chain": "c", "expr": [{"jump": {"target": "roce"}}]}}, {"rule": {"family": "ip", "table": "f", "chain": "roce", "expr": [{"match": {"op": "==", "left": {"payload": {"protocol": "th", "field": "dport"}}, "right": 4791}}, {"accept": null}]}}]}`,
		`{"nftables": [{"chain": {"family": "ip", "table": "f", "name": "c", "hook": "forward", "policy": "drop"}}, {"rule": {"family": "ip", "table": "f", "chain": "c", "expr": [{"drop": null}]}}]}`,
		`{"nftables": [{"chain": {"family": "ip", "table": "f", "name": "c", "hook": "input", "policy": "accept"}}, {"rule": {"family": "ip", "table": "f", "chain": "c", "expr": [{"match": {"op": "!=", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": 4791}}, {"drop": null}]}}]}`,
		// The first one that matches decides.
		`{"nftables": [{"chain": {"family": "ip", "table": "f", "name": "c", "hook": "input", "policy": "drop"}}, {"rule": {"family": "ip", "table": "f", "chain": "c", "expr": [{"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": 4791}}, {"accept": null}]}}, {"rule": {"family": "ip", "table": "f", "chain": "c", "expr": [{"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": 4791}}, {"drop": null}]}}]}`,
	} {
		require.Equal(t, OK, worst(judged(t, "nft -j list ruleset", text)), text)
	}
}

func TestTarget(t *testing.T) {
	h := healthy()
	for _, c := range []struct {
		target target
		iface  string
		want   string // error
	}{
		{target{}, "eth0", ""},
		{target{iface: "lo"}, "lo", ""},
		{target{addr: netip.MustParseAddr("2001:db8::1")}, "eth0", ""},
		{target{addr: netip.MustParseAddr("127.1.2.3")}, "lo", ""},
		{target{iface: "eth7"}, "", `no interface "eth7"`},
		{target{addr: netip.MustParseAddr("192.0.2.1")}, "", "not an address of this machine"},
	} {
		got, err := c.target.choose(h.ifaces)
		if c.want != "" {
			require.ErrorContains(t, err, c.want)
			continue
		}
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.Equal(t, c.iface, got[0].Name)
	}
	_, err := target{}.choose(nil)
	require.ErrorContains(t, err, "no interface")
	// One that is named and has no address is a failure, loopback that is named is none.
	h.ifaces[1].Addrs = nil
	all, err := examine(t.Context(), h.system(), target{iface: "eth0"}, []string{"address"})
	require.NoError(t, err)
	require.Equal(t, Fail, worst(all))
	all, err = examine(t.Context(), h.system(), target{iface: "lo"}, []string{"address"})
	require.NoError(t, err)
	require.Equal(t, OK, worst(all))
}

func TestCPUList(t *testing.T) {
	got, err := cpuList("0-2,7\n")
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 2, 7}, got)
	for _, bad := range []string{"x", "1-", "3-1", "0-99999999"} {
		_, err := cpuList(bad)
		require.Error(t, err, bad)
	}
}
