package mad_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
)

// tsharkField is a field of tshark's dissector and what a message has for it;
// nil if the message does not have the field.
type tsharkField struct {
	name string
	want func(h *mad.Header, m message) any
}

// of builds the want function of a field of message type M.
func of[M message](get func(M) any) func(*mad.Header, message) any {
	return func(_ *mad.Header, m message) any {
		if m, ok := m.(M); ok {
			return get(m)
		}
		return nil
	}
}

// boolean is a flag as tshark's integer fields show it.
func boolean(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// tsharkFields leaves out what tshark 4.0 reads from wrong offsets: flow label
// and packet rate of a path.
var tsharkFields = []tsharkField{
	{"infiniband.mad.baseversion", func(h *mad.Header, _ message) any { return uint64(h.BaseVersion) }},
	{"infiniband.mad.mgmtclass", func(h *mad.Header, _ message) any { return uint64(h.Class) }},
	{"infiniband.mad.classversion", func(h *mad.Header, _ message) any { return uint64(h.ClassVersion) }},
	{"infiniband.mad.method", func(h *mad.Header, _ message) any { return uint64(h.Method) }},
	{"infiniband.mad.status", func(h *mad.Header, _ message) any { return uint64(h.Status) }},
	{"infiniband.mad.transactionid", func(h *mad.Header, _ message) any { return uint64(h.TID) }},
	{"infiniband.mad.attributeid", func(h *mad.Header, _ message) any { return uint64(h.Attribute) }},
	{"infiniband.mad.attributemodifier", func(h *mad.Header, _ message) any { return uint64(h.Modifier) }},

	{"infiniband.cm.req", of(func(m *mad.REQ) any { return uint64(m.LocalCommID) })},
	{"infiniband.cm.req.serviceid.dport", of(func(m *mad.REQ) any { return uint64(m.ServiceID & 0xFFFF) })},
	{"infiniband.cm.req.localcaguid", of(func(m *mad.REQ) any { return uint64(m.CAGUID) })},
	{"infiniband.cm.req.localqkey", of(func(m *mad.REQ) any { return uint64(m.QKey) })},
	{"infiniband.cm.req.localqpn", of(func(m *mad.REQ) any { return uint64(m.QPN) })},
	{"infiniband.cm.req.responderres", of(func(m *mad.REQ) any { return uint64(m.ResponderResources) })},
	{"infiniband.cm.req.localeecn", of(func(m *mad.REQ) any { return uint64(m.LocalEECN) })},
	{"infiniband.cm.req.initdepth", of(func(m *mad.REQ) any { return uint64(m.InitiatorDepth) })},
	{"infiniband.cm.req.remoteeecn", of(func(m *mad.REQ) any { return uint64(m.RemoteEECN) })},
	{"infiniband.cm.req.remoteresptout", of(func(m *mad.REQ) any { return uint64(m.RemoteCMTimeout) })},
	{"infiniband.cm.req.transpsvctype", of(func(m *mad.REQ) any { return uint64(m.Transport) })},
	{"infiniband.cm.req.e2eflowctrl", of(func(m *mad.REQ) any { return boolean(m.FlowControl) })},
	{"infiniband.cm.req.startpsn", of(func(m *mad.REQ) any { return uint64(m.StartingPSN) })},
	{"infiniband.cm.req.localresptout", of(func(m *mad.REQ) any { return uint64(m.LocalCMTimeout) })},
	{"infiniband.cm.req.retrcount", of(func(m *mad.REQ) any { return uint64(m.RetryCount) })},
	{"infiniband.cm.req.pkey", of(func(m *mad.REQ) any { return uint64(m.PKey) })},
	{"infiniband.cm.req.pppmtu", of(func(m *mad.REQ) any { return uint64(m.MTU) })},
	{"infiniband.cm.req.rdcexist", of(func(m *mad.REQ) any { return boolean(m.RDCExists) })},
	{"infiniband.cm.req.rnrretrcount", of(func(m *mad.REQ) any { return uint64(m.RNRRetryCount) })},
	{"infiniband.cm.req.maxcmretr", of(func(m *mad.REQ) any { return uint64(m.MaxCMRetries) })},
	{"infiniband.cm.req.srq", of(func(m *mad.REQ) any { return boolean(m.SRQ) })},
	{"infiniband.cm.req.ext_transport", of(func(m *mad.REQ) any { return uint64(m.ExtendedTransport) })},
	{"infiniband.cm.req.prim_locallid", of(func(m *mad.REQ) any { return uint64(m.Primary.LocalLID) })},
	{"infiniband.cm.req.prim_remotelid", of(func(m *mad.REQ) any { return uint64(m.Primary.RemoteLID) })},
	{"infiniband.cm.req.prim_tfcclass", of(func(m *mad.REQ) any { return uint64(m.Primary.TrafficClass) })},
	{"infiniband.cm.req.prim_hoplim", of(func(m *mad.REQ) any { return uint64(m.Primary.HopLimit) })},
	{"infiniband.cm.req.prim_sl", of(func(m *mad.REQ) any { return uint64(m.Primary.SL) })},
	{"infiniband.cm.req.prim_subnetlocal", of(func(m *mad.REQ) any { return boolean(m.Primary.SubnetLocal) })},
	{"infiniband.cm.req.prim_localacktout", of(func(m *mad.REQ) any { return uint64(m.Primary.AckTimeout) })},
	{"infiniband.cm.req.ip_cm.sport", of(func(m *mad.REQ) any { return uint64(cma(m).SrcPort) })},
	{"infiniband.cm.req.ip_cm.sip4", of(func(m *mad.REQ) any { return family(cma(m).Src, true) })},
	{"infiniband.cm.req.ip_cm.dip4", of(func(m *mad.REQ) any { return family(cma(m).Dst, true) })},
	{"infiniband.cm.req.ip_cm.sip6", of(func(m *mad.REQ) any { return family(cma(m).Src, false) })},
	{"infiniband.cm.req.ip_cm.dip6", of(func(m *mad.REQ) any { return family(cma(m).Dst, false) })},

	{"infiniband.cm.rep", of(func(m *mad.REP) any { return uint64(m.LocalCommID) })},
	{"infiniband.cm.rep.remotecommid", of(func(m *mad.REP) any { return uint64(m.RemoteCommID) })},
	{"infiniband.cm.rep.localqkey", of(func(m *mad.REP) any { return uint64(m.QKey) })},
	{"infiniband.cm.rep.localqpn", of(func(m *mad.REP) any { return uint64(m.QPN) })},
	{"infiniband.cm.rep.localeecn", of(func(m *mad.REP) any { return uint64(m.EECN) })},
	{"infiniband.cm.rep.startpsn", of(func(m *mad.REP) any { return uint64(m.StartingPSN) })},
	{"infiniband.cm.rep.respres", of(func(m *mad.REP) any { return uint64(m.ResponderResources) })},
	{"infiniband.cm.rep.initdepth", of(func(m *mad.REP) any { return uint64(m.InitiatorDepth) })},
	{"infiniband.cm.rep.tgtackdelay", of(func(m *mad.REP) any { return uint64(m.TargetAckDelay) })},
	{"infiniband.cm.rep.failoveracc", of(func(m *mad.REP) any { return uint64(m.Failover) })},
	{"infiniband.cm.rep.e2eflowctrl", of(func(m *mad.REP) any { return boolean(m.FlowControl) })},
	{"infiniband.cm.rep.rnrretrcount", of(func(m *mad.REP) any { return uint64(m.RNRRetryCount) })},
	{"infiniband.cm.rep.srq", of(func(m *mad.REP) any { return boolean(m.SRQ) })},
	{"infiniband.cm.rep.localcaguid", of(func(m *mad.REP) any { return uint64(m.CAGUID) })},

	{"infiniband.cm.rtu.localcommid", of(func(m *mad.RTU) any { return uint64(m.LocalCommID) })},
	{"infiniband.cm.rtu.remotecommid", of(func(m *mad.RTU) any { return uint64(m.RemoteCommID) })},
	{"infiniband.cm.dreq.localcommid", of(func(m *mad.DREQ) any { return uint64(m.LocalCommID) })},
	{"infiniband.cm.dreq.remotecommid", of(func(m *mad.DREQ) any { return uint64(m.RemoteCommID) })},
	{"infiniband.cm.req.remoteqpneecn", of(func(m *mad.DREQ) any { return uint64(m.RemoteQPN) })},
	{"infiniband.cm.drsp.localcommid", of(func(m *mad.DREP) any { return uint64(m.LocalCommID) })},
	{"infiniband.cm.drsp.remotecommid", of(func(m *mad.DREP) any { return uint64(m.RemoteCommID) })},
}

func cma(m *mad.REQ) (h mad.CMAHeader) {
	h.Decode(m.Private)
	return h
}

func family(a netip.Addr, v4 bool) any {
	if a.Is4() != v4 {
		return nil
	}
	return a.String()
}

// TestAgainstTshark compares the captured messages, field by field, with what
// tshark's dissector reads.
func TestAgainstTshark(t *testing.T) {
	if testing.Short() {
		t.Skip("short: tshark takes a second to begin")
	}
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark, the decoder by others that this compares with, is not installed: ", err)
	}
	byCapture := map[string][]datagram{}
	for _, d := range datagrams(t) {
		byCapture[d.capture] = append(byCapture[d.capture], d)
	}
	compared := 0
	for name, all := range byCapture {
		args := []string{
			"-n", "-r", filepath.Join(captureFolder, name), "-Y", fmt.Sprintf("infiniband.bth.destqp == %d", ib.QPNGSI),
			"-T", "fields", "-E", "separator=|", "-E", "occurrence=f", "-e", "frame.number",
		}
		for _, f := range tsharkFields {
			args = append(args, "-e", f.name)
		}
		var stderr bytes.Buffer
		cmd := exec.Command(tshark, args...)
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, stderr.Bytes())
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if len(lines) != len(all) {
			t.Fatalf("%s: %d datagrams for tshark, %d here", name, len(lines), len(all))
		}
		for i, d := range all {
			got := strings.Split(lines[i], "|")
			if len(got) != 1+len(tsharkFields) || got[0] != strconv.Itoa(d.index) {
				t.Fatalf("%v: tshark has %q", d, lines[i])
			}
			var h mad.Header
			b, _ := mad.Parse(d.b, &h)
			m := newMessage(h.Attribute)
			m.Decode(b)
			for k, f := range tsharkFields {
				if want := f.want(&h, m); !tsharkEqual(got[k+1], want) {
					t.Errorf("%v, %v: %s is %q for tshark, %v here", d, h.Attribute, f.name, got[k+1], want)
				}
			}
			compared++
		}
	}
	if compared < 40 {
		t.Errorf("only %d datagrams compared", compared)
	}
}

func tsharkEqual(got string, want any) bool {
	switch want := want.(type) {
	case string:
		return got == want
	case uint64:
		v, err := strconv.ParseUint(got, 0, 64)
		return err == nil && v == want
	}
	return got == ""
}
