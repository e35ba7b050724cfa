package doctor

import (
	"fmt"
	"strconv"
	"strings"
)

// checkDamage: a packet that was damaged on the way is dropped, and looks like loss; the counters
// tell.
func checkDamage(v *view) (out []Finding) {
	for i := range v.ifaces {
		f := &v.ifaces[i]
		dir, err := v.sysfs(f)
		if err != nil {
			continue
		}
		crc, err := v.number(dir + "/statistics/rx_crc_errors")
		if err == nil && crc > 0 {
			out = append(out, Finding{Subject: f.Name, Level: Warn,
				Found: fmt.Sprintf("%d frames came with a wrong checksum of Ethernet", crc),
				Why:   "They were damaged between here and the next switch: a cable, a transceiver or its seat. RoCE sends each, and all behind it, again.",
				Mend: []string{
					fmt.Sprintf("ethtool -S %s | grep -iE 'crc|symbol|fec'   # does it still grow?", f.Name),
				}})
		}
	}
	wrong := v.pairs("proc/thread-self/net/snmp", "Udp:", "InCsumErrors")
	if text, err := v.read("proc/thread-self/net/snmp6"); err == nil {
		for line := range strings.Lines(text) {
			if w := strings.Fields(line); len(w) == 2 && w[0] == "Udp6InCsumErrors" {
				n, _ := strconv.ParseInt(w[1], 10, 64)
				wrong += n
			}
		}
	}
	if wrong > 0 {
		out = append(out, Finding{Subject: "UDP", Level: Warn,
			Found: fmt.Sprintf("%d datagrams of this network namespace came with a wrong UDP checksum", wrong),
			Why:   damageWhy,
			Mend: []string{"nstat -az UdpInCsumErrors Udp6InCsumErrors   # does it still grow?",
				"ethtool -K INTERFACE tx off   # on the machine that sends, if it is all of them"}})
	}
	if len(out) == 0 {
		out = []Finding{{Found: "no packet that came was damaged, as far as is counted"}}
	}
	return out
}

const damageWhy = "The kernel drops them, so that they look like loss. If it is all of one sender, that does not fill its checksums in, as a guest whose bridge does not know of the offload; " +
	"if it is few, something on the way damages packets."
