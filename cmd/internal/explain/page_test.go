package explain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
	"github.com/stretchr/testify/require"
)

// The page needs nothing from elsewhere, no text of the capture becomes a tag, and it does not say
// where the file was.
func TestPageStandsAlone(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "<b>&.pcap")
	b, err := os.ReadFile(captures + "rping.pcap")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, b, 0o644))
	page, _, err := explained(t, "--html", name)
	require.NoError(t, err)
	require.NotRegexp(t, `(?i)\b(src|href)=["']?[^'"#]|https?:|@import|url\([^#]`, page)
	require.NotContains(t, page, "<b>&.pcap")
	require.NotContains(t, page, dir)
	require.Contains(t, page, "<title>&lt;b&gt;&amp;.pcap explained</title>")
	require.Equal(t, 2, strings.Count(page, "</script>"))
	require.NotContains(t, page, "{{")
}

// hostile puts text that would be markup into all strings that can be set.
func hostile(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			hostile(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				hostile(v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			hostile(v.Index(i))
		}
	case reflect.String:
		v.SetString("</script><script>x()</script>")
	}
}

// Whatever a capture brings into the text of the analyser ends as data.
func TestPageOfHostileText(t *testing.T) {
	e, drawn := &explanation{Name: "x"}, &window{most: 100}
	b, err := os.ReadFile(captures + "rc_pingpong_loss.pcap")
	require.NoError(t, err)
	require.NoError(t, e.read(bytes.NewReader(b), analyse.Options{}, drawn))
	hostile(reflect.ValueOf(e.Report))
	for i := range drawn.rows {
		drawn.rows[i].more = "</script><script>x()</script>"
	}
	e.Damage = "</script><script>x()</script>"
	var page bytes.Buffer
	require.NoError(t, e.page(drawn).write(&page))
	require.Equal(t, 2, strings.Count(page.String(), "</script"))
	require.NotContains(t, page.String(), "<script>x")
}

// A CNP comes from the end that saw the congestion, also if that has answered nothing before.
func TestPageCNP(t *testing.T) {
	cfg := stage.Config{MTU: ib.MTU4096}
	cfg.Sim.Up = sim.Pipe{BitsPerSecond: 40e9, Latency: 1000}
	cfg.Sim.Down = sim.Pipe{BitsPerSecond: 10e9, Latency: 1000, QueueBytes: 1 << 20,
		Mark: sim.RED{KminBytes: 20_000, KmaxBytes: 100_000, Pmax: 0.2}.Mark}
	for i := range cfg.Tuning {
		cfg.Tuning[i] = transport.Tuning{LossProbe: -1, MaxUnackedPackets: transport.DefaultMaxUnackedPackets,
			Congestion: cc.Config{Algorithm: cc.DCQCNPaper, LineRate: 40 * cc.Gbps, Capped: true, Burst: -1}}
	}
	cfg.Attr = func(_ int, a *verbs.ConnAttr) { a.TrafficClass = 2 } // ECT(0): may be marked
	s, err := stage.New(cfg)
	require.NoError(t, err)
	_, err = s.Do(0, s.Write(0, 512<<10))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	e, drawn := &explanation{Name: "x"}, &window{most: 1000}
	require.NoError(t, e.read(bytes.NewReader(s.Capture(stage.At1)), analyse.Options{}, drawn))
	cnps, answered := 0, false
	for _, r := range e.page(drawn).rows {
		if r.role == analyse.RoleCNP {
			require.Equal(t, s.Hosts[1].Addr, e.Connections[r.connection-1].Ends[r.end].Addr)
			if !answered {
				cnps++
			}
		}
		answered = answered || r.role == analyse.RoleAnswer
	}
	require.NotZero(t, cnps, "before the first answer")
}

// fates are the frames of lost packets, 0 for those that are in no frame, with what became of them.
func fates(d *pageData) (out []string) {
	for _, r := range d.rows {
		if r.fate != fateUnknown {
			out = append(out, fmt.Sprint(r.role, " ", r.psn)+[]string{
				"", " lost", " maybe lost", " dropped", " maybe dropped",
			}[r.fate]+map[bool]string{true: ", not here"}[r.frame == 0])
		}
	}
	return out
}

// Lost packets are marked, and those that are not in the capture have a row where they are missing.
func TestPageFates(t *testing.T) {
	play := func(host int, psn ib.PSN, v stage.View) *pageData {
		s, err := stage.New(stage.Config{})
		require.NoError(t, err)
		_, err = s.Do(0, s.Write(0, 64)) // the analyser needs a round trip to compare with
		require.NoError(t, err)
		s.Hosts[host].Faults.Add(fault.Rule{PSN: psn, HasPSN: true, Times: 1})
		_, err = s.Do(0, s.Write(0, 8192))
		require.NoError(t, err)
		s.Net.RunFor(2 * time.Millisecond) // what may be late has come by then
		_, err = s.Do(0, s.Write(0, 64))
		require.NoError(t, err)
		require.NoError(t, s.Close())
		e, drawn := &explanation{Name: "x"}, &window{most: 1000}
		require.NoError(t, e.read(bytes.NewReader(s.Capture(v)), analyse.Options{}, drawn))
		return e.page(drawn)
	}
	require.Equal(t, []string{"request 1003 maybe lost"}, fates(play(0, 1003, stage.At0)))
	require.Equal(t, []string{"request 1003 lost, not here"}, fates(play(0, 1003, stage.At1)))
	require.Equal(t, []string{"request 1008 maybe lost"}, fates(play(1, 1008, stage.At0)),
		"to the sender that looks the same")
	require.Equal(t, []string{"answer 1008 maybe lost"}, fates(play(1, 1008, stage.At1)))
}

// What is too much for a page is left out, and counted.
func TestPageBound(t *testing.T) {
	d := &pageData{MoreFindings: 1}
	for i := range pageFindings + 5 {
		d.Findings = append(d.Findings,
			pageFinding{Finding: &analyse.Finding{Frames: []int{1}, Connection: pageConnections + 3 - min(i, 1)}})
	}
	for i := range pageConnections + 7 {
		d.Connections = append(d.Connections, &analyse.Connection{Number: i + 1, Packets: pageConnections - i})
	}
	var page bytes.Buffer
	require.NoError(t, d.write(&page))
	require.Len(t, d.Findings, pageFindings)
	require.Equal(t, 6, d.MoreFindings)
	require.Len(t, d.Connections, pageConnections)
	require.Equal(t, 7, d.MoreConnections)
	require.Equal(t, pageConnections+3, d.Connections[pageConnections-1].Number, "it has a finding")
	_, rest := pageRows(t, page.String())
	require.Equal(t, 7.0, rest["more_connections"])
}

// What the application saw as an error comes first, what nothing was lost by last.
func TestPageOrder(t *testing.T) {
	mild, plain, bad := &analyse.Finding{Kind: analyse.CEMarked}, &analyse.Finding{Kind: analyse.LostAck},
		&analyse.Finding{Kind: analyse.RemoteAccess, Status: "10"}
	require.Equal(t, []*analyse.Finding{bad, plain, mild}, weighed([]*analyse.Finding{mild, plain, bad}))
	b, err := json.Marshal(pageFinding{Finding: bad, Weight: weigh(bad)})
	require.NoError(t, err)
	require.Contains(t, string(b), `"weight":0`)
}
