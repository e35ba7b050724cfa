package explain

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce/analyse/strict"
)

// A rule that is broken for certain makes the command fail; one that is perhaps does not.
func TestStrict(t *testing.T) {
	got, _, err := explained(t, "--strict", captures+"rping.pcap")
	require.ErrorContains(t, err, "rules are broken by 41 packets")
	require.Contains(t, got, "packet 4  mig-req (IBTA 9.2.3, 17.2.8), by 10.77.0.2: allowed is MigReq 1")
	require.Contains(t, got, "ack-req             5 certain      0 possible  ")

	got, _, err = explained(t, "--strict", captures+"rc_pingpong_loss.pcap")
	require.NoError(t, err)
	require.Contains(t, got, "[possible; an excuse would be: something that packets do not show]")

	got, _, err = explained(t, "--strict", "--json", captures+"rping.pcap")
	require.Error(t, err)
	var v struct{ Violations []strict.Violation }
	require.NoError(t, json.Unmarshal([]byte(got), &v))
	require.Len(t, v.Violations, 4)

	_, _, err = explained(t, "--complete", captures+"rping.pcap")
	require.ErrorContains(t, err, "--strict")
	_, _, err = explained(t, "--strict", "--html", captures+"rping.pcap")
	require.ErrorContains(t, err, "--strict")
	require.Contains(t, rulesText(), "mig-req (any; IBTA 9.2.3, 17.2.8)\n  MigReq is 1")
}
