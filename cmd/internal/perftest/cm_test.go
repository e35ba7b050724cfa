package perftest

import (
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/cmd/internal/toolcheck"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// -R and -z against themselves: the client names the server's device, since
// the port is one of RDMA-CM.
func TestCM(t *testing.T) {
	for _, c := range []struct {
		test Test
		args string
		rows int // that the server reports
	}{
		{writeBW, "-R -n 50", 1},
		{writeBW, "-R -n 50 -q 4 -b -s 1000", 1},
		{writeBW, "-z -n 50", 1},
		{writeBW, "-R -n 20 --polling", 1},
		{Test{Verb: Read}, "-R -n 50 -s 5000", 1},
		{atomicBW, "-R -n 50", 1},
		{sendBW, "-R -n 50 -b", 1},
		{sendBW, "-R -n 50 -q 3 -m 1024", 1},
		{sendBW, "-R -n 30 -c UD -s 256 -t 8", 1},
		{sendBW, "-R -n 30 -c UD -s 256 -t 8 -b", 1},
		{sendBW, "-z -n 30 -c UD -s 256 -t 8", 1},
		{sendLat, "-R -n 30", 1},
		{sendLat, "-R -n 30 -c UD -T 16", 1},
		{sendLat, "-R -n 30 -e", 1},
		{Test{Verb: Write, Latency: true}, "-R -n 50", 1},
		{Test{Verb: Read, Latency: true}, "-R -n 50 -u 16", 0},
		{Test{Verb: Atomic, Latency: true}, "-R -n 50", 0},
	} {
		t.Run(c.test.Name()+" "+c.args, func(t *testing.T) {
			server, client := &toolcheck.Side{Args: strings.Fields(c.args)},
				&toolcheck.Side{Args: strings.Fields(c.args)}
			onServer, onClient := runJSON(t, c.test, server, client)
			require.Len(t, onClient.Results, 1)
			require.Len(t, onServer.Results, c.rows)
		})
	}
}

func TestDestStruct(t *testing.T) {
	d := dest{LID: 1, OutReads: 2, QPN: 3, PSN: 4, RKey: 5, VAddr: 6, SRQN: 7, GID: ib.GID{8, 15: 9}}
	b := d.appendStruct(nil)
	require.Len(t, b, destStructBytes)
	require.Equal(t, d, parseDestStruct(b))
	require.Equal(t, d, parseDestStruct(append(b, make([]byte, 8)...)), "as newer originals send it")
	require.Equal(t, []byte{0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 8}, b[16:33])
}

// The same over IPv6, whose one loopback address both sides share a device on.
func TestCMOverIPv6(t *testing.T) {
	open := toolcheck.Shared6(t)
	for _, c := range []struct {
		test Test
		args string
		rows int
	}{
		{writeBW, "-R -n 20 -q 2 -b", 1},
		{writeBW, "-z -n 20", 1},
		{Test{Verb: Read}, "-R -n 20", 1},
		{atomicBW, "-R -n 20", 1},
		{sendBW, "-R -n 20", 1},
		{sendBW, "-R -n 20 -c UD -s 256 -t 8 -b", 1},
		{sendLat, "-R -n 20", 1},
		{sendLat, "-R -n 20 -c UD", 1},
		{Test{Verb: Write, Latency: true}, "-R -n 20", 1},
		{readLat, "-R -n 20", 0},
		{Test{Verb: Atomic, Latency: true}, "-R -n 20", 0},
	} {
		t.Run(c.test.Name()+" "+c.args, func(t *testing.T) {
			side := func() *toolcheck.Side {
				return &toolcheck.Side{Args: strings.Fields(c.args + " --ipv6-addr"), Open: open, Addr: "::1"}
			}
			onServer, onClient := runJSON(t, c.test, side(), side())
			require.Len(t, onClient.Results, 1)
			require.Len(t, onServer.Results, c.rows)
			require.Equal(t, "::1", onClient.LocalGID)
			require.Equal(t, "::1", onServer.RemoteGID)
		})
	}
}

// The server refuses the first QP of the test, since it does not listen yet, and then takes a copy
// of that request after all: a client repeats a request that is not answered soon, and the copies
// wait together in a server that stands still. So the client must still know the connection. One
// that had asked anew, in the name of another, would have the server see one more connection, which
// is refused.
func TestCMRefusedThenAccepted(t *testing.T) {
	replies := 0
	refuse :=
		fault.Rule{Dir: fault.Receive, QP: ib.QPNGSI, Action: fault.Mutate, Mutate: func(_ *ib.Packet, body []byte) {
			m := (*[mad.Bytes]byte)(body[ib.BTHBytes+ib.DETHBytes:])
			var h mad.Header
			data, err := mad.Parse(m[:], &h)
			if err != mad.OK || h.Attribute != mad.AttrREP {
				return
			}
			if replies++; replies != 2 { // the first is about the control
				return
			}
			var rep mad.REP
			rep.Decode(data)
			h.Attribute = mad.AttrREJ
			rej := mad.REJ{RemoteCommID: rep.RemoteCommID, Rejected: mad.SubjectREQ, Reason: mad.RejectInvalidServiceID}
			if err := rej.Put(h.Put(m)); err != nil {
				panic(err)
			}
		}}
	client := &toolcheck.Side{Args: strings.Fields("-R -n 20 -q 3"),
		Open: func(cfg verbs.Config) (*verbs.Device, func() error, error) {
			cfg.WrapLink = func(l link.Link) (link.Link, error) { return fault.New(l, refuse), nil }
			return tool.OpenDevice(cfg)
		}}
	runJSON(t, writeBW, &toolcheck.Side{Args: client.Args}, client)
	require.Greater(t, replies, 4, "the one that became a refusal, and one to each request")
}
