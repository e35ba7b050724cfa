package doctor

import "fmt"

// Socket buffers, in bytes.
const (
	wantBuffer = 16 << 20 // what a device asks for
	lowBuffer  = 1 << 20  // below this bursts of one peer overflow it
)

// checkBuffers: a datagram that finds the receive buffer full is lost, and RoCE sends all since
// then again.
func checkBuffers(v *view) []Finding {
	const why = "UDP has no back pressure: what finds the receive buffer full is lost, and go-back-N sends it and all behind it again. " +
		"A device also asks for READs in smaller parts where it has less room."
	rmem, err := v.number("proc/sys/net/core/rmem_max")
	if err != nil {
		// Network namespaces other than the first do not have the file on all kernels.
		return v.grantedBuffers(why, err)
	}
	wmem, err := v.number("proc/sys/net/core/wmem_max")
	if err != nil {
		return v.grantedBuffers(why, err)
	}
	f := Finding{Found: fmt.Sprintf("receive %s, send %s at most", bytesText(rmem), bytesText(wmem))}
	granted := v.privileged(capNetAdmin)
	switch {
	case rmem >= wantBuffer && wmem >= wantBuffer:
	case granted:
		f.Level, f.Why = Note, "This process may exceed that (CAP_NET_ADMIN); others get no more."
		f.Mend = bufferMend
	case rmem < lowBuffer:
		f.Level, f.Why, f.Mend = Warn, why, bufferMend
	default:
		f.Level, f.Why, f.Mend = Note, why, bufferMend
	}
	return []Finding{f}
}

var bufferMend = []string{
	fmt.Sprintf("sysctl -w net.core.rmem_max=%d net.core.wmem_max=%d", wantBuffer, wantBuffer),
}

// grantedBuffers looks at what a device got, where the limits cannot be read.
func (v *view) grantedBuffers(why string, unread error) []Finding {
	for _, a := range v.addrs() {
		caps, err := v.open(a)
		if err != nil || caps.RecvBufferBytes == 0 {
			continue
		}
		// The kernel reports twice what it was asked for: with its own overhead.
		f := Finding{Subject: a.String(), Found: fmt.Sprintf("a device gets receive %s, send %s",
			bytesText(int64(caps.RecvBufferBytes/2)), bytesText(int64(caps.SendBufferBytes/2)))}
		if caps.RecvBufferBytes/2 < lowBuffer {
			f.Level, f.Why = Warn, why+" The limit is that of the first network namespace."
			f.Mend = []string{"nsenter -t 1 -n " + bufferMend[0]}
		}
		return []Finding{f}
	}
	return []Finding{unknown("", "the limits of socket buffers", unread)}
}
