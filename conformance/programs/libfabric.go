package programs

import "strings"

// fabricPort is where fi_pingpong's server is reached by TCP.
const fabricPort = 47592

// fabricCases are libfabric's programs on its verbs provider.
func fabricCases() []Case {
	all := []Case{
		{Program: "fi_info", Label: "-p verbs", Client: []string{"fi_info", "-p", "verbs"},
			Check: has("provider: verbs", "FI_EP_MSG"), Quick: true},
	}
	for _, x := range []struct {
		label, args string
		quick       bool
	}{
		{"msg", "-p verbs -e msg", true},
		{"rdm over ofi_rxm", "-p verbs;ofi_rxm -e rdm", true},
		{"rdm over ofi_rxm, tagged", "-p verbs;ofi_rxm -e rdm -m tagged", false},
		{"rdm over ofi_rxd", "-p verbs;ofi_rxd -e rdm", false},
		{"dgram", "-p verbs -e dgram", false},
	} {
		argv := append([]string{"fi_pingpong", "-c", "-I", "20", "-S", "all"}, strings.Fields(x.args)...)
		all = append(all, Case{
			Program: "fi_pingpong", Label: x.label, Server: argv,
			Client: append(argv[:len(argv):len(argv)], "TCP"), Port: fabricPort,
			Check: bothHave("bytes   #sent   #ack", "\n4k "), OneAddress: x.label == "msg", Quick: x.quick,
			Limit: longCaseTime, // -S all: up to 8 MiB each, and compared
		})
	}
	for i := range all {
		all[i].Group = groupFabric
	}
	return all
}
