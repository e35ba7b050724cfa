package strict_test

import (
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/analyse/strict"
)

const root = "../../.."

// rxeRows is the row of docs/rxe.md of what rxe is found to do in captures.
var rxeRows = map[strict.Rule]int{
	strict.RuleStream:      4,
	strict.RuleNAKAfterRNR: 9,
	strict.RuleAckReq:      15,
	strict.RuleMigReq:      16,
	strict.RuleCNPMissing:  17,
	strict.RuleGoBack:      23,
	strict.RuleFlowLabel:   26,
}

// byRxe reports whether a host of the captures is one with rdma_rxe: those of goroce have addresses
// from 100 on.
func byRxe(a netip.Addr) bool { b := a.AsSlice(); return b[len(b)-1] < 100 }

// Every capture in the tree passes, or shows a deviation of rxe that is known: goroce breaks no
// rule in any, whatever was done to its packets on the way.
func TestCaptures(t *testing.T) {
	seeds.Slow(t)
	files, found := 0, map[strict.Rule]int{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := d.Name(); d.IsDir() && base != ".." && base[0] == '.' {
			return fs.SkipDir
		}
		if ext := filepath.Ext(name); d.IsDir() || ext != ".pcap" && ext != ".pcapng" {
			return nil
		}
		files++
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		rep, err := strict.Read(f, strict.Options{})
		require.NoError(t, err, name)
		require.NotZero(t, rep.Packets, name)
		for _, v := range rep.Violations {
			if v.Rule == strict.RuleAtomic && strings.Contains(name, "misaligned-atomic") {
				continue // the wire makes the address odd
			}
			found[v.Rule]++
			if !byRxe(v.By) || rxeRows[v.Rule] == 0 {
				t.Errorf("%s: %+v", name, v)
			}
		}
		return nil
	})
	require.NoError(t, err)
	t.Logf("%d captures: %v", files, found)
	require.GreaterOrEqual(t, files, 360)
	for r, row := range rxeRows {
		require.NotZero(t, found[r], "no capture shows row %d, %s", row, r)
	}
}
