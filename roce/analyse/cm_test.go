package analyse_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/capture"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/pcap"
	"github.com/stretchr/testify/require"
)

// cmScene is a connection through RDMA-CM that something happens to.
type cmScene struct {
	name string
	// fault is put between the hosts before A dials.
	fault func(s *stage.Stage)
	port  uint16        // that A dials; B listens on 7000
	slow  time.Duration // how long B takes to accept
	// between is called with the connection open; it echoes a message if nil.
	between func(t *testing.T, s *stage.Stage, c *roce.Conn)
	want    [3]string
}

// nth makes host h lose the nth datagram to queue pair 1.
func nth(h, n int) func(s *stage.Stage) {
	return func(s *stage.Stage) {
		s.Hosts[h].Faults.Add(
			fault.Rule{Action: fault.Drop, Opcode: ib.UDSendOnly, HasOpcode: true, Every: n, Times: 1})
	}
}

func cmScenes() []cmScene {
	return []cmScene{
		{name: "clean"},
		{name: "nobody listens", port: 7001, want: [3]string{"cm-rejected", "cm-rejected", "cm-rejected"}},
		{name: "lost REQ", fault: nth(0, 1), want: [3]string{"cm-lost", "", ""}},
		{name: "lost REP", fault: nth(1, 1), want: [3]string{"cm-lost", "cm-lost", "cm-lost"}},
		// B sends first, or what A sends would say that it has the REP.
		{name: "lost RTU", fault: nth(0, 2), want: [3]string{"cm-lost", "cm-lost", "cm-lost"}, between: idle},
		{name: "lost RTU, and data says the same", fault: nth(0, 2), want: [3]string{"", "cm-lost", "cm-lost"}},
		{name: "lost DREQ", fault: nth(0, 3), want: [3]string{"cm-lost", "", ""}},
		{name: "lost DREP", fault: nth(1, 2), want: [3]string{"cm-lost", "cm-lost", "cm-lost"}},
		{name: "lost REJ", fault: nth(1, 1), port: 7001,
			want: [3]string{"cm-lost cm-rejected", "cm-lost cm-rejected", "cm-lost cm-rejected"}},
		{name: "slow to accept", slow: 10 * time.Second, want: [3]string{"cm-slow", "cm-slow", "cm-slow"}},
		{name: "slow to accept, lost MRA", slow: 10 * time.Second, fault: nth(1, 1),
			want: [3]string{"cm-slow", "cm-lost|cm-slow cm-slow", "cm-slow"}},
		{name: "the peer vanishes", between: func(t *testing.T, s *stage.Stage, c *roce.Conn) {
			echo(t, c)
			s.Net.Partition(s.Hosts[0].Addr, s.Hosts[1].Addr, true)
			err := c.Send(t.Context(), []byte("hello"))
			if err == nil {
				_, err = c.Recv(t.Context(), make([]byte, 100))
			}
			require.Error(t, err)
		}, want: [3]string{"peer-gone retry-exceeded|peer-gone", "peer-gone retry-exceeded|peer-gone",
			"peer-gone retry-exceeded|peer-gone"}},
	}
}

// echo sends a message and has it back.
func echo(t *testing.T, c *roce.Conn) {
	t.Helper()
	require.NoError(t, c.Send(t.Context(), []byte("hello")))
	b := make([]byte, 100)
	n, err := c.Recv(t.Context(), b)
	require.NoError(t, err)
	require.Equal(t, "hello", string(b[:n]))
}

// idle does nothing for longer than a message of RDMA-CM waits for its answer.
func idle(t *testing.T, _ *stage.Stage, _ *roce.Conn) {
	time.Sleep(time.Minute)
}

// play runs an echo service on B, to which A connects.
func (c *cmScene) play(t *testing.T, s *stage.Stage) {
	ctx, stop := context.WithCancel(t.Context())
	wait := func(*roce.ConnRequest) error { time.Sleep(c.slow); return nil } // virtual, too
	l, err := (&roce.ListenConfig{
		ConnConfig: roce.ConnConfig{Device: s.Hosts[1].Device, KeepAlive: -1}, Handshake: wait,
	}).ListenAddr(netip.AddrPortFrom(s.Hosts[1].Addr, 7000))
	require.NoError(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = l.Serve(ctx, func(ctx context.Context, c *roce.Conn) error {
			b := make([]byte, 100)
			for {
				n, err := c.Recv(ctx, b)
				if err == nil {
					err = c.Send(ctx, b[:n])
				}
				if err != nil {
					return err
				}
			}
		})
	}()
	if c.fault != nil {
		c.fault(s)
	}
	port := c.port
	if port == 0 {
		port = 7000
	}
	conn, err := (&roce.Dialer{ConnConfig: roce.ConnConfig{Device: s.Hosts[0].Device, KeepAlive: -1}}).DialAddr(ctx,
		netip.AddrPortFrom(s.Hosts[1].Addr, port))
	switch {
	case port != 7000:
		require.True(t, errors.Is(err, roce.ErrConnRefused), "%v", err)
	case c.between != nil:
		require.NoError(t, err)
		c.between(t, s, conn)
		_ = conn.Close()
	default:
		require.NoError(t, err)
		echo(t, conn)
		require.NoError(t, conn.Close())
	}
	time.Sleep(time.Minute) // virtual: everything has its timeouts
	stop()
	<-served
}

func TestCM(t *testing.T) {
	var b strings.Builder
	for _, c := range cmScenes() {
		fmt.Fprintf(&b, "%s\n", c.name)
		sim.Test(t, sim.Config{Seed: 1}, func(t *testing.T, net *sim.Fabric) {
			s, err := stage.New(stage.Config{Net: net, Bare: true})
			require.NoError(t, err)
			c.play(t, s)
			require.NoError(t, s.Close())
			for i, v := range []stage.View{stage.At0, stage.At1, stage.Wire} {
				r, err := s.Report(v)
				require.NoError(t, err)
				fmt.Fprintf(&b, "  %v\n", v)
				for _, f := range r.Findings {
					fmt.Fprintf(&b, "    %s\n", line(f))
				}
				if got := kindsFound(r); got != c.want[i] {
					t.Errorf("%s, %v: found %q, want %q", c.name, v, got, c.want[i])
					dump(t, s, v)
				}
			}
		})
	}
	golden(t, "cm.txt", b.String())
}

// madPacket is a message of RDMA-CM from one address to another.
func madPacket(t *testing.T, n int, src, dst string, put func(b *mad.Data) error, attr mad.Attribute) *pcap.Packet {
	t.Helper()
	var m [mad.Bytes]byte
	h := mad.CMHeader(attr, 1)
	require.NoError(t, put(h.Put(&m)))
	q := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.PKeyDefault, DestQP: ib.QPNGSI},
		DETH: ib.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QPNGSI}}
	body := make([]byte, ib.BTHBytes+ib.DETHBytes)
	q.PutHeaders(body)
	body = append(append(body, m[:]...), 0, 0, 0, 0)
	flow := ib.Flow{Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst), SrcPort: 50000, DstPort: ib.UDPPort}
	icrc := ib.NewICRC(flow)
	ib.PutICRC(body[len(body)-4:], icrc.Checksum(0, body[:len(body)-4]))
	f := capture.Frame{Flow: flow, DF: true, HopLimit: 64, Payload: body, SrcMAC: make([]byte, 6),
		DstMAC: make([]byte, 6)}
	b, err := f.Build()
	require.NoError(t, err)
	d := &pcap.Decoder{}
	all := d.Decode(&pcap.Frame{Number: n, Link: pcap.LinkEthernet, Data: b, WireBytes: len(b), AtNs: int64(n) * 1e6})
	require.Len(t, all, 1)
	require.Equal(t, pcap.ICRCRight, all[0].ICRC)
	return &all[0]
}

// A peer that still has the connection before this one says so.
func TestStaleConnection(t *testing.T) {
	a := analyse.New(analyse.Options{})
	a.Add(madPacket(t, 1, "192.0.2.1", "192.0.2.2",
		(&mad.REQ{LocalCommID: 7, QPN: 17, MTU: ib.MTU1024}).Put, mad.AttrREQ))
	a.Add(madPacket(t, 2, "192.0.2.2", "192.0.2.1",
		(&mad.REJ{RemoteCommID: 7, Reason: mad.RejectStaleConnection}).Put, mad.AttrREJ))
	r := a.Report()
	require.Equal(t, "stale-connection", kindsFound(r))
	require.Equal(t, []int{2}, r.Findings[0].Frames)
}
