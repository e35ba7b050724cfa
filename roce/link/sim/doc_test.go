package sim_test

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
)

func serve(t *testing.T, d *verbs.Device) { require.True(t, d.Capabilities().Scheduled) }

// TestService is in the package comment.
func TestService(t *testing.T) {
	sim.Test(t, sim.Config{Seed: 1, Faults: sim.Faults{Loss: 0.01}}, func(t *testing.T, net *sim.Fabric) {
		host, err := net.Link(netip.MustParseAddr("192.0.2.1"))
		if err != nil {
			t.Fatal(err)
		}
		device, err := verbs.Open(verbs.Config{Link: host})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { device.Close() })
		serve(t, device) // and so on: nothing else is special
	})
}

// What the package comment shows is TestService.
func TestDocIsTested(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		return string(b)
	}
	_, code, found := strings.Cut(read("doc_test.go"), "\nfunc TestService(")
	require.True(t, found)
	code, _, found = strings.Cut(code, "\n}\n")
	require.True(t, found)
	lines := strings.Split("func TestService("+code+"\n}", "\n")
	require.Contains(t, read("doc.go"), "\n//\t"+strings.Join(lines, "\n//\t")+"\n")
}
