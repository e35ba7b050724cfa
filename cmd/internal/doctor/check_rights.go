package doctor

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/goroce/goroce/internal/unix"
)

// Capabilities (linux/capability.h).
const (
	capNetAdmin = unix.CAP_NET_ADMIN
	capNetRaw   = unix.CAP_NET_RAW
	capIPCLock  = unix.CAP_IPC_LOCK
	capSysAdmin = unix.CAP_SYS_ADMIN
	capBPF      = unix.CAP_BPF
)

// capabilities returns the effective ones of this process.
func (v *view) capabilities() (uint64, error) {
	text, err := v.read("proc/thread-self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "CapEff:"); ok {
			return strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		}
	}
	return 0, fmt.Errorf("/proc/thread-self/status has no CapEff")
}

// privileged reports whether this process has a capability for certain.
func (v *view) privileged(capability int) bool {
	caps, err := v.capabilities()
	return err == nil && caps>>capability&1 == 1
}

// linkNeeds is what the links that carry packets need. udp needs nothing.
var linkNeeds = []struct {
	link, gain string
	caps       []int
}{
	{"packet", "sees whole IP packets", []int{capNetRaw}},
	{"xdp", "has the least latency", []int{capNetAdmin, capBPF, capNetRaw}},
}

var capNames = map[int]string{capNetAdmin: "cap_net_admin", capNetRaw: "cap_net_raw", capBPF: "cap_bpf"}

// checkCapabilities: which links this process could use.
func checkCapabilities(v *view) (out []Finding) {
	caps, err := v.capabilities()
	if err != nil {
		return []Finding{unknown("", "what this process may do", err)}
	}
	out = append(out, Finding{Subject: "udp", Found: "needs none"})
	for _, l := range linkNeeds {
		var names, missing []string
		for _, c := range l.caps {
			names = append(names, capNames[c])
			has := caps>>c&1 == 1 || c == capBPF && caps>>capSysAdmin&1 == 1
			if !has {
				missing = append(missing, capNames[c])
			}
		}
		f := Finding{Subject: l.link, Found: "could be used: has " + strings.Join(names, ", ")}
		if len(missing) > 0 {
			f.Level, f.Found = Note, "cannot be used: lacks "+strings.Join(missing, ", ")
			f.Why = "It is not needed: it " + l.gain + "."
			f.Mend = []string{fmt.Sprintf("setcap %s+ep $(command -v roce)", strings.Join(names, ","))}
		}
		if k := v.kernel(); l.link == "xdp" && k.before(4, 18) {
			f.Level, f.Found, f.Mend = Note, fmt.Sprintf("cannot be used: Linux %s has no AF_XDP", k), nil
			f.Why = "It is not needed: it " + l.gain + "."
		}
		out = append(out, f)
	}
	return out
}

// xdpFrameBytes is what the frames of an xdp link take for each queue of the interface: 2560 of 4
// KiB.
const xdpFrameBytes = 10 << 20

// checkMemlock: only the frames of the xdp link are locked memory.
func checkMemlock(v *view) []Finding {
	n, err := v.Limit(unix.RLIMIT_MEMLOCK)
	if err != nil {
		return []Finding{unknown("", "the limit of locked memory", err)}
	}
	switch {
	case n == math.MaxUint64:
		return []Finding{{Found: "no limit of locked memory"}}
	case v.privileged(capIPCLock):
		return []Finding{{Found: fmt.Sprintf("%s may be locked, and this process may exceed that (CAP_IPC_LOCK)",
			bytesText(int64(min(n, math.MaxInt64))))}}
	case n >= xdpFrameBytes:
		return []Finding{{Found: bytesText(int64(min(n, math.MaxInt64))) + " may be locked"}}
	}
	return []Finding{{
		Level: Note, Found: bytesText(int64(n)) + " may be locked",
		Why:  "Registered memory is not locked here, unlike with a network card or rdma_rxe; but the frames of the xdp link are: 10 MiB for each queue of the interface.",
		Mend: []string{"ulimit -l unlimited"},
	}}
}
