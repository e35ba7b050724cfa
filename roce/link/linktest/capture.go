package linktest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goroce/goroce/internal/capture"
	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

// captureBufferBytes holds what passes during a test.
const captureBufferBytes = 64 << 20

// Capture returns the frames that pass the interface in the namespace, in both
// directions, while f runs. Frames that were sent when f returns are there.
func (n *Namespace) Capture(t testing.TB, f func()) []*capture.Packet {
	t.Helper()
	fd := -1
	n.Do(func() {
		ifi, err := net.InterfaceByName(Device)
		require.NoError(t, err)
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		require.NoError(t, err)
		require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, captureBufferBytes))
		// All protocols, in network byte order.
		require.NoError(t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: unix.ETH_P_ALL << 8, Ifindex: ifi.Index}))
	})
	defer unix.Close(fd)
	f()
	var out []*capture.Packet
	buf := make([]byte, 1<<17)
	for {
		k, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EAGAIN {
			return out
		}
		require.NoError(t, err)
		out = append(out, capture.Parse(buf[:k]))
	}
}

// writeCapture writes frames to a file for other programs, and returns its name.
func writeCapture(t testing.TB, frames []*capture.Packet) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "capture.pcap")
	file, err := os.Create(name)
	require.NoError(t, err)
	require.NoError(t, capture.Write(file, frames))
	require.NoError(t, file.Close())
	return name
}

// RoCEFrames are those of the frames that are UDP to the port of RoCE.
func RoCEFrames(all []*capture.Packet) []*capture.Packet {
	return slices.DeleteFunc(slices.Clone(all), func(p *capture.Packet) bool { return !p.RoCE() })
}

// CheckCapture has tshark look at frames, each with a packet that [Packet] made: it must find
// nothing malformed, and no wrong IP checksum; with udp, no wrong UDP checksum either.
func CheckCapture(t testing.TB, frames []*capture.Packet, udp bool) {
	t.Helper()
	if testing.Short() {
		t.Skip("short: tshark takes a second to begin")
	}
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("the rest needs tshark")
	}
	out, err := exec.Command(tshark, "-r", writeCapture(t, frames), "-o", "ip.check_checksum:TRUE", "-o",
		"udp.check_checksum:TRUE", "-T", "fields", "-e", "infiniband.bth.opcode", "-e", "frame.protocols",
		"-e", "_ws.malformed", "-e", "ip.checksum.status", "-e", "udp.checksum.status").Output()
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	require.Len(t, lines, len(frames))
	for _, line := range lines {
		f := strings.Split(line, "\t")
		require.Equal(t, "7", f[0], "opcode")
		if !capture.Guessed(f[1]) {
			require.Empty(t, f[2], "malformed")
		}
		require.NotEqual(t, "0", f[3], "IP checksum")
		if udp {
			require.NotEqual(t, "0", f[4], "UDP checksum")
		}
	}
}
