package dump

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/pcap"
	"github.com/stretchr/testify/require"
)

const captures = "../../../ib/testdata/captures/"

// dumped runs the command.
func dumped(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out, errs bytes.Buffer
	err := Command().Run(t.Context(), &tool.Env{Stdout: &out, Stderr: &errs}, args)
	return out.String(), err
}

func lines(s string) []string { return strings.Split(strings.TrimSuffix(s, "\n"), "\n") }

// A DREQ for nobody's queue pair ends nothing.
func TestQuestion(t *testing.T) {
	for qpn, want := range map[ib.QPN]string{0x11: "DREQ id 0x1 to 0x2 qp 0x000011",
		mad.NobodysQPN: "DREQ id 0x1 to 0x2 qp of nobody, which asks"} {
		var b [mad.Bytes]byte
		h := mad.CMHeader(mad.AttrDREQ, 1)
		require.NoError(t, (&mad.DREQ{LocalCommID: 1, RemoteCommID: 2, RemoteQPN: qpn}).Put(h.Put(&b)))
		var p pcap.Packet
		p.Opcode, p.DestQP, p.Payload = ib.UDSendOnly, ib.QPNGSI, b[:]
		got, ok := message(&p)
		require.True(t, ok)
		require.Equal(t, want, got)
	}
}

func TestLines(t *testing.T) {
	got, err := dumped(t, captures+"rping.pcap")
	require.NoError(t, err)
	all := lines(got)
	require.Len(t, all, 41)
	require.Equal(t, "1 02:04:48.270188000 10.77.0.2 > 10.77.0.3 UD SEND ONLY qp 0x000001 psn 0 from qp 0x000001 CM REQ id 0x430d1f47 service TCP/7174 qp 0x000011 psn 13240954 mtu 4096 retries 7 rnr 7 256 bytes ackreq", all[0])
	require.Equal(t, "6 02:04:48.409210000 10.77.0.3 > 10.77.0.2 RC READ REQUEST qp 0x000011 psn 13240954 va 0x55c0359bf370 rkey 0x550 len 64 ackreq", all[5])
	require.Equal(t,
		"7 02:04:48.411889000 10.77.0.2 > 10.77.0.3 RC READ RESPONSE ONLY qp 0x000011 psn 13240954 ACK msn 1 64 bytes",
		all[6])
	got, err = dumped(t, "-v", "-c", "1", captures+"atomic_fa.pcap")
	require.NoError(t, err)
	require.Contains(t, got, "atomiceth     va=0x")
	require.Contains(t, got, "icrc          state=right")
}

func TestFilters(t *testing.T) {
	for _, c := range []struct {
		args string
		want int
	}{
		{"--op nak rc_pingpong_loss", 15},
		{"--errors rc_pingpong_loss", 15},
		{"--op cm rping", 5},
		{"--op read,write rping", 9},
		{"--qp 0x11 rping", 36},
		{"--qp 0x11 --op ack rping", 15},
		{"--qp 99 rping", 0},
		{"--addr 10.77.0.2 rping", 41},
		{"--addr 192.0.2.1 rping", 0},
		{"-c 7 rping", 7},
	} {
		args := strings.Fields(c.args)
		args[len(args)-1] = captures + args[len(args)-1] + ".pcap"
		got, err := dumped(t, args...)
		require.NoError(t, err)
		n := 0
		if got != "" {
			n = len(lines(got))
		}
		require.Equal(t, c.want, n, "%s:\n%s", c.args, got)
	}
	for _, args := range [][]string{
		{"--op", "nonsense", "x"}, {"--qp", "x", "x"}, {"--addr", "x", "x"}, {}, {"-i", "lo", "x"},
	} {
		_, err := dumped(t, args...)
		require.Error(t, err, "%q", args)
	}
}

func TestJSON(t *testing.T) {
	got, err := dumped(t, "--json", captures+"rping.pcap")
	require.NoError(t, err)
	for i, l := range lines(got) {
		var r struct {
			Frame   int
			Headers map[string]map[string]any
		}
		require.NoError(t, json.Unmarshal([]byte(l), &r))
		require.Equal(t, i+1, r.Frame)
		require.Equal(t, "right", r.Headers["icrc"]["state"])
		require.NotNil(t, r.Headers["bth"]["psn"].(float64))
	}
}

// A file that cannot take all is an error, though what is left to write fits the buffer.
func TestWriteFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no file that is always full")
	}
	_, err := dumped(t, "-w", "/dev/full", captures+"rping.pcap")
	require.ErrorIs(t, err, syscall.ENOSPC)
}

// What -w writes is read again, and is what the filter let through.
func TestWrite(t *testing.T) {
	out := filepath.Join(t.TempDir(), "acks.pcap")
	got, err := dumped(t, "-w", out, "--op", "ack", captures+"rping.pcap")
	require.NoError(t, err)
	require.Empty(t, got)
	want, err := dumped(t, "--op", "ack", captures+"rping.pcap")
	require.NoError(t, err)
	got, err = dumped(t, out)
	require.NoError(t, err)
	strip := func(s string) (all []string) { // the number of the frame is another one
		for _, l := range lines(s) {
			_, l, _ = strings.Cut(l, " ")
			all = append(all, l)
		}
		return all
	}
	require.Equal(t, strip(want), strip(got))
}

// A trace that is written to a pipe is printed as it comes, and an interrupt ends that.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		done <- Command().Run(ctx, &tool.Env{Stdout: w, Stderr: w}, []string{path})
	}()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	b, err := os.ReadFile(captures + "rping.pcap")
	require.NoError(t, err)
	_, err = f.Write(b[:5000]) // and no end
	require.NoError(t, err)
	first := make([]byte, 100)
	_, err = r.Read(first)
	require.NoError(t, err)
	require.Contains(t, string(first), "1 02:04:48")
	go func() { // or the pipe of the output would be full
		for {
			if _, err := r.Read(first); err != nil {
				return
			}
		}
	}()
	stop()
	var fe *pcap.FormatError
	if err := <-done; err != nil && !errors.As(err, &fe) {
		t.Error(err)
	}
	require.NoError(t, errors.Join(f.Close(), w.Close(), r.Close()))
}

// Packets on an interface are seen once, with their time.
func TestLive(t *testing.T) {
	l, err := listen("lo", 8)
	if errors.Is(err, unix.EPERM) {
		t.Skip("capturing on an interface needs CAP_NET_RAW")
	}
	require.NoError(t, err)
	defer l.close()
	to, err := net.Dial("udp", "127.0.0.1:4791")
	require.NoError(t, err)
	defer to.Close()
	// The UDP payload of a packet of a capture. Its ICRC is of other addresses.
	b, err := os.ReadFile(captures + "rping.pcap")
	require.NoError(t, err)
	r, err := pcap.NewReader(bytes.NewReader(b))
	require.NoError(t, err)
	var f pcap.Frame
	require.NoError(t, r.Next(&f))
	_, err = to.Write(f.Data[42:])
	require.NoError(t, err)
	d := &pcap.Decoder{}
	for {
		require.NoError(t, l.next(t.Context(), &f))
		all := d.Decode(&f)
		if len(all) == 0 || all[0].ICMP != nil || all[0].Flow.SrcPort != uint16(to.LocalAddr().(*net.UDPAddr).Port) {
			continue
		}
		require.Contains(t, line(&all[0]), "CM REQ")
		require.Contains(t, line(&all[0]), "ICRC-WRONG")
		require.NotZero(t, f.AtNs)
		return
	}
}

func env(out, errs *bytes.Buffer) *tool.Env { return &tool.Env{Stdout: out, Stderr: errs} }
