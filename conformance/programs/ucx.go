package programs

import "slices"

// ucxPort is where ucx_perftest's server is reached by TCP.
const ucxPort = 13337

// ucxTests are those of ucx_perftest: of the transport layer (UCT), and of the protocols above
// (UCP).
var (
	uctTests = []string{"am_lat", "put_lat", "add_lat", "get", "fadd", "swap", "cswap", "am_bw", "put_bw", "add_mr"}
	ucpTests = []string{
		"tag_lat", "tag_bw", "tag_sync_lat", "tag_sync_bw", "ucp_put_lat", "ucp_put_bw", "ucp_get", "ucp_add",
		"ucp_fadd", "ucp_swap", "ucp_cswap", "stream_bw", "stream_lat", "ucp_am_lat", "ucp_am_bw",
	}
	// udTests are what the datagram transport has: no access to memory.
	udTests = []string{"am_lat", "am_bw"}
)

// ucxCases are UCX's programs on its verbs transports.
func ucxCases() []Case {
	all := []Case{
		{Program: "ucx_info", Label: "-d", Client: []string{"ucx_info", "-d"},
			Check: has("Transport: rc_verbs", "Transport: ud_verbs", "Device: goroce0:1"), Quick: true},
	}
	add := func(label string, env []string, quick bool, args ...string) {
		// The server is told the test, too: some are chosen on both sides.
		argv := append([]string{"ucx_perftest", "-n", "500", "-w", "50"}, args...)
		all = append(all, Case{
			Program: "ucx_perftest", Label: label, Server: argv,
			Client: append([]string{"ucx_perftest", "TCP"}, argv[1:]...), Env: env, Port: ucxPort, Terminal: true,
			Check: has("Final:"), Quick: quick, OneAddress: label == "rc_verbs tag_bw",
		})
	}
	quick := []string{"tag_lat", "tag_bw", "ucp_put_bw", "ucp_get", "ucp_fadd"}
	for _, tl := range []string{"rc_verbs", "ud_verbs"} {
		// As a user would write it: rc_v is rc_verbs, with ud_verbs to connect.
		env := []string{"UCX_TLS=" + map[string]string{"rc_verbs": "rc_v", "ud_verbs": "ud_v"}[tl],
			"UCX_NET_DEVICES=goroce0:1"}
		for _, t := range ucpTests {
			add(tl+" "+t, env, slices.Contains(quick, t), "-t", t)
		}
		for _, size := range []string{"1", "65536", "4194304"} {
			iterations := map[bool]string{false: "200", true: "10"}[size == "4194304"]
			add(tl+" tag_bw -s "+size, env, false, "-t", "tag_bw", "-s", size, "-n", iterations, "-w", "2")
			add(tl+" ucp_get -s "+size, env, false, "-t", "ucp_get", "-s", size, "-n", iterations, "-w", "2")
		}
		add(tl+" tag_lat, sleeping", env, false, "-t", "tag_lat", "-E", "sleep")
		tests := uctTests
		if tl == "ud_verbs" {
			tests = udTests
		}
		for _, t := range tests {
			layout := []string{"-D", "bcopy"}
			switch t {
			case "fadd", "swap", "cswap", "add_lat", "add_mr":
				layout = nil
			}
			add(tl+" "+t, nil, false, append([]string{"-x", tl, "-d", "goroce0:1", "-t", t}, layout...)...)
			if t == "swap" { // which verbs have not
				all[len(all)-1].Refused = "does not support required"
			}
		}
		add(tl+" am_bw zcopy", nil, false, "-x", tl, "-d", "goroce0:1", "-t", "am_bw", "-D", "zcopy", "-s", "1024")
	}
	for i := range all {
		all[i].Group = groupUCX
	}
	return all
}
