package analyse_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goroce/goroce/roce/analyse"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the expected tables anew")

const captureDir = "../../ib/testdata/captures"

// read analyses a file.
func read(t *testing.T, path string, opt analyse.Options) *analyse.Report {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	r, _, err := analyse.Read(bytes.NewReader(b), opt)
	require.NoError(t, err)
	return r
}

// line is a finding in a table: kind, what it may be else, frames, queue pair, PSN.
func line(f *analyse.Finding) string {
	kind := string(f.Kind)
	for _, k := range f.Or {
		kind += "|" + string(k)
	}
	sure := "certain"
	if !f.Certain {
		sure = "likely"
	}
	frames := make([]string, 0, len(f.Frames))
	for i, n := range f.Frames {
		if i == 4 {
			frames = append(frames, "...") // how often something is tried is not the analyser's business
			break
		}
		frames = append(frames, fmt.Sprint(n))
	}
	return fmt.Sprintf("%-40s %-8s qp %v psn %-9d frames %s", kind, sure, f.QPN, f.PSN, strings.Join(frames, ","))
}

// Captures of rdma_rxe with itself: all are clean but the one that had losses. The table was
// compared with the packets as tshark shows them.
func TestCaptures(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(captureDir, "*.pcap"))
	require.NoError(t, err)
	require.Greater(t, len(files), 10)
	var b strings.Builder
	for _, path := range files {
		r := read(t, path, analyse.Options{})
		fmt.Fprintf(&b, "%s: %d packets\n", filepath.Base(path), r.Packets)
		for _, c := range r.Connections {
			fmt.Fprintf(&b, "  %s %v %v - %v %v MTU %d\n", c.Transport, c.Ends[0].Addr, c.Ends[0].QPN,
				c.Ends[1].Addr, c.Ends[1].QPN, c.MTU)
			for i, w := range c.Ways {
				for _, k := range kindsOf(w) {
					o := w.Operations[k]
					fmt.Fprintf(&b, "    end %d: %s: %d begun, %d completed, %d bytes\n", i, k, o.Begun,
						o.Completed, o.Bytes)
				}
				if w.Again+w.Missing > 0 {
					fmt.Fprintf(&b, "    end %d: %d again, %d sequence NAKs, %d timeouts, %d missing\n", i,
						w.Again, w.Sequence, w.Timeouts, w.Missing)
				}
			}
		}
		for _, f := range r.Findings {
			fmt.Fprintf(&b, "  %s\n", line(f))
		}
	}
	golden(t, "captures.txt", b.String())
}

func kindsOf(w analyse.Way) (all []string) {
	for _, k := range []string{"SEND", "SEND with immediate", "SEND with invalidate", "WRITE",
		"WRITE with immediate", "READ", "CMP_SWAP", "FETCH_ADD", "ATOMIC WRITE", "FLUSH"} {
		if w.Operations[k] != nil {
			all = append(all, k)
		}
	}
	return all
}

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	// Memory is where it is.
	got = regexp.MustCompile(`( at |\(|From | to |is for )0x[0-9a-f]+`).ReplaceAllString(got, "${1}0xADDRESS")
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "run with -update and look at the difference")
}
