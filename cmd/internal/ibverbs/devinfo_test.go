package ibverbs

import (
	"bytes"
	"encoding/json"
	"flag"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/cmd/internal/toolcheck"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew")

func sample() info {
	gids := []ib.GID{ib.GIDFromAddr(netip.MustParseAddr("10.77.0.2")),
		ib.GIDFromAddr(netip.MustParseAddr("2001:db8::1"))}
	return info{
		HCA: "roce_eth0",
		Device: verbs.DeviceAttr{
			NodeGUID: 0x021122fffe334455, SystemImageGUID: 0x021122fffe334455, VendorID: 0xffffff,
			FirmwareVersion: "goroce", MaxMRBytes: 1 << 46, MaxQP: 1 << 20, MaxQPWR: 1 << 14, MaxSGE: 32,
			MaxSGERead: 32, MaxCQ: 9, MaxCQE: 99, MaxMR: 8, MaxPD: 7, MaxQPRdAtomic: 128,
			MaxQPInitAtomic: 128, AtomicCap: verbs.AtomicGlobal, MaxMW: 5, MaxAH: 6, MaxSRQ: 4,
			MaxSRQWR: 3, MaxSRQSGE: 2, MaxPKeys: 1, LocalCAAckDelay: 15, PhysicalPorts: 1,
			CompletionVectors: 1, MaxInline: 512,
		},
		Port: verbs.PortAttr{Active: true, GIDs: 2, LinkName: "udp", LinkLayer: "Ethernet"},
		Link: link.Capabilities{ICRCBits: 16, GSO: true, SendBufferBytes: 1 << 20, RecvBufferBytes: 1 << 21},
		gids: gids, maxMTU: ib.MTU4096, mtu: ib.MTU1024, maxMsgBytes: 1 << 31, pkeyTableLen: 1,
	}
}

func TestInfoText(t *testing.T) {
	for name, verbose := range map[string]bool{"testdata/short.txt": false, "testdata/verbose.txt": true} {
		i := sample()
		var out bytes.Buffer
		i.print(&out, verbose)
		if *update {
			require.NoError(t, os.MkdirAll("testdata", 0o755))
			require.NoError(t, os.WriteFile(name, out.Bytes(), 0o644))
		}
		want, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, string(want), out.String())
	}
}

func runHere(t *testing.T, args ...string) (string, error) {
	var out bytes.Buffer
	err := Devinfo().Run(t.Context(), &tool.Env{Stdout: &out, Stderr: &out}, args)
	return out.String(), err
}

func TestDevice(t *testing.T) {
	addr := toolcheck.Addr(t).String()
	out, err := runHere(t, "--addr", addr)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(out, "hca_id:\troce_"), out)
	require.Contains(t, out, "\tPORT_ACTIVE (4)\n")

	out, err = runHere(t, "-v", "--addr", addr)
	require.NoError(t, err)
	require.Contains(t, out, "GID[  0]:\t\t::ffff:"+addr+", RoCE v2\n")

	out, err = runHere(t, "--json", "--addr", addr)
	require.NoError(t, err)
	var i info
	require.NoError(t, json.Unmarshal([]byte(out), &i))
	require.Equal(t, []string{addr}, i.GIDs)
	require.Positive(t, i.Device.MaxQP)
}

// What a device can do can be asked while programs use it, those that share the address and others.
func TestDeviceInUse(t *testing.T) {
	addr := toolcheck.Addr(t)
	dev, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{addr}})
	require.NoError(t, err)
	text, err := runHere(t, "--addr", addr.String())
	require.NoError(t, err)
	require.Contains(t, text, "\tPORT_ACTIVE (4)\n")
	require.NoError(t, dev.Close())
	other, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, ib.UDPPort)))
	require.NoError(t, err)
	defer other.Close()
	var out, remarks bytes.Buffer
	require.NoError(t,
		Devinfo().Run(t.Context(), &tool.Env{Stdout: &out, Stderr: &remarks}, []string{"--addr", addr.String()}))
	require.Contains(t, out.String(), "\tPORT_ACTIVE (4)\n")
	require.Equal(t, "devinfo: another program uses the device on "+addr.String()+" at the moment\n", remarks.String())
}

func TestList(t *testing.T) {
	out, err := runHere(t, "-l")
	require.NoError(t, err)
	require.Contains(t, out, "\troce_lo\n")
}

func TestDevinfoRefused(t *testing.T) {
	for args, want := range map[string]string{
		"host": "no operand", "-z": "unknown", "-i 2": "not within",
		"--addr 192.0.2.1": "not an address of this machine",
	} {
		_, err := runHere(t, strings.Fields(args)...)
		require.ErrorContains(t, err, want)
	}
	_, err := runHere(t, "-h")
	var text *tool.Text
	require.ErrorAs(t, err, &text)
}
