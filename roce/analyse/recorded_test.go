package analyse_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/pcap"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

var record = flag.Bool("record", false, "record the captures of TestRecorded anew, and write its table")

const recordedFile = "testdata/recorded.zst"

// recording is what was captured in one run of a label.
type recording struct {
	name  string
	views [3][]byte // at A, at B, on the wire
}

// recordLabels plays every label once.
func recordLabels(t *testing.T) {
	var b []byte
	for i, l := range labels() {
		l.run(t, uint64(3*i+1), func(s *stage.Stage, _ truth) {
			b = appendString(b, l.name)
			for _, p := range l.places()[:3] {
				b = appendString(b, string(s.Capture(p.view)))
			}
		})
	}
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(recordedFile, w.EncodeAll(b, nil), 0o644))
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// recordings reads what recordLabels has written.
func recordings(t *testing.T) (all []recording) {
	file, err := os.ReadFile(recordedFile)
	require.NoError(t, err)
	r, err := zstd.NewReader(nil)
	require.NoError(t, err)
	defer r.Close()
	b, err := r.DecodeAll(file, nil)
	require.NoError(t, err)
	next := func() []byte {
		n, k := binary.Uvarint(b)
		s := b[k : k+int(n)]
		b = b[k+int(n):]
		return s
	}
	for len(b) > 0 {
		x := recording{name: string(next())}
		for i := range x.views {
			x.views[i] = next()
		}
		all = append(all, x)
	}
	return all
}

// What is said of captures that do not change: of each, the findings, and a digest of everything
// else, down to the notes of packets. It is here to notice changes that nobody meant; whether what
// is said is right is the matter of TestLabelled.
func TestRecorded(t *testing.T) {
	if *record {
		recordLabels(t)
		*update = true
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("processors round floats in ways of their own, and a digest tells")
	}
	var table strings.Builder
	for i, x := range recordings(t) {
		if seeds.Race && i%8 != 0 {
			continue // nothing here runs side by side
		}
		for _, p := range (&label{}).places() {
			fmt.Fprintf(&table, "%s, %s: %s\n", x.name, p.name, recorded(t, x.views[p.shows], &p, analyse.Options{}))
		}
		p := &place{name: "A", directed: true}
		fmt.Fprintf(&table, "%s, conduct: %s\n", x.name,
			recorded(t, x.views[0], p, analyse.Options{Conduct: &analyse.Conduct{}, Recall: 100}))
	}
	if seeds.Race {
		want, err := os.ReadFile("testdata/recorded.txt")
		require.NoError(t, err)
		for line := range strings.Lines(table.String()) {
			require.True(t, strings.Contains(string(want), line), "not in the table: %s", line)
		}
		return
	}
	golden(t, "recorded.txt", table.String())
}

// recorded is what is said of a capture, in short.
func recorded(t *testing.T, file []byte, p *place, opt analyse.Options) string {
	all := sha256.New()
	a := analyse.New(opt)
	rng := rand.New(rand.NewPCG(1, 2))
	first := 0
	if p.middle {
		first = 20
	}
	r, err := pcap.NewReader(bytes.NewReader(file))
	require.NoError(t, err)
	d := &pcap.Decoder{}
	for {
		var f pcap.Frame
		if err := r.Next(&f); err != nil {
			require.True(t, errors.Is(err, io.EOF), err)
			break
		}
		if !p.directed {
			f.Dir = pcap.Unknown
		}
		packets := d.Decode(&f)
		for i := range packets {
			if f.Number > first && !(p.gaps && rng.IntN(12) == 0) {
				fmt.Fprintln(all, a.Add(&packets[i]))
			}
		}
	}
	report := a.Report()
	var kinds []string
	for _, f := range report.Findings {
		kind := string(f.Kind)
		for _, o := range f.Or {
			kind += "|" + string(o)
		}
		if f.Certain {
			kind += "!"
		}
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, f.PSN))
	}
	for _, b := range report.Breaches {
		kinds = append(kinds, string(b.Rule))
	}
	text, err := json.MarshalIndent([]any{report, report.Exhausted()}, "", " ")
	require.NoError(t, err)
	if seeds.One() {
		t.Logf("%s: %s", p.name, text)
	}
	all.Write(text)
	return fmt.Sprintf("%x: %s", all.Sum(nil)[:4], strings.Join(kinds, ", "))
}
