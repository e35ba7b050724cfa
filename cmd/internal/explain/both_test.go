package explain

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goroce/goroce/roce/analyse"
	"github.com/stretchr/testify/require"
)

// pageOf is the page of two captures. Unless they are 0, the clock of the second one is ahead, and
// drifts away.
func pageOf(t *testing.T, a, b string, ahead int64, drift float64) (*pageData, error) {
	t.Helper()
	es := [2]*explanation{{Name: a}, {Name: b}}
	var in [2]io.ReadSeeker
	for i, name := range []string{a, b} {
		f, err := os.Open(name)
		require.NoError(t, err)
		defer f.Close()
		in[i] = f
	}
	windows, err := readBoth(es, in, analyse.Options{}, &window{most: drawnPackets}, false)
	require.NoError(t, err)
	if ahead != 0 || drift != 0 {
		from := es[1].StartNs
		wrong := func(ns int64) int64 { return ns + ahead + int64(float64(ns-from)*drift) }
		es[1].StartNs = wrong(from)
		for i := range windows[1].rows {
			windows[1].rows[i].atNs = wrong(windows[1].rows[i].atNs)
		}
	}
	return bothPage(es, windows)
}

// The captures with faults that were recorded at both ends: what the wire dropped is what the page
// shows as lost, whichever file comes first.
func TestBothOfFaults(t *testing.T) {
	files, err := filepath.Glob("../../../conformance/captures/testdata/*/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	known, apart := 0, []string{}
	for i, file := range files {
		// The clocks of both captures are one, so that it is known what is to be found when one is
		// set wrong.
		ahead, drift := int64(i-80)*1_234_567_891, float64(i%5-2)*4e-5
		var scene struct {
			Scene    string
			Injected []struct {
				What   string
				Sender int
				At     []struct{ Frames []int }
			}
		}
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, &scene))
		base := strings.TrimSuffix(file, ".json")
		names := []string{base + ".requester.pcapng", base + ".responder.pcapng"}
		for first := range 2 {
			d, err := pageOf(t, names[first], names[1-first], ahead, drift)
			if err != nil {
				require.ErrorContains(t, err, "no packet is in both")
				apart = append(apart, scene.Scene)
				continue
			}
			var want, got, beyond []string
			for _, x := range scene.Injected {
				if x.What == "drop" {
					for _, n := range x.At[x.Sender].Frames {
						want = append(want, fmt.Sprint(x.Sender, " ", n))
					}
				}
			}
			for i := range d.rows {
				r := &d.rows[i]
				n, in := r.frame, first
				if n == 0 {
					n, in = r.frame2, 1-first
				}
				switch r.fate {
				case fateLost, fateMaybeLost:
					got = append(got, fmt.Sprint(in, " ", n))
				case fateBeyond:
					beyond = append(beyond, fmt.Sprint(in, " ", n))
				}
			}
			if scene.Scene == "lost REQ" { // the first packet of all: the other capture may have begun later
				require.Equal(t, want, beyond)
				want = nil
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(want, got) {
				t.Errorf("%s, first %d: dropped %v, shown %v, beyond %v", filepath.Base(base), first, want, got, beyond)
			}
			known += len(got)
		}
	}
	require.Greater(t, known, 250)
	t.Log(known, apart)
}
