package perftest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

func TestCHex(t *testing.T) {
	for _, c := range []struct {
		width int
		v     uint64
		want  string
	}{
		// What printf("%#04x", 0) and so on print.
		{4, 0, "0000"}, {4, 1, "0x01"}, {4, 0x80, "0x80"}, {4, 0x12345, "0x12345"},
		{6, 0x1d, "0x001d"}, {6, 0xa131de, "0xa131de"}, {8, 0x1234, "0x001234"},
		{16, 0x7f1234560000, "0x007f1234560000"},
	} {
		require.Equal(t, c.want, cHex(c.width, c.v))
	}
}

func mustParse(t *testing.T, test Test, args ...string) *Options {
	t.Helper()
	o, err := parse(test, args)
	require.NoError(t, err)
	return o
}

// The golden files were compared by eye with the output of perftest 6.06.
func TestTables(t *testing.T) {
	far := destValue
	far.QPN, far.PSN, far.GID[15] = 0x11, 0x5c, 3
	report := bwReport{Size: 65536, Iters: 5000, Peak: 1234.5678, Average: 1200.1, Rate: 0.0192016}
	lat := latencyOf(2, []int64{0, 2000, 6000, 206000, 212000, 220000, 320000}, 2)
	for _, c := range []struct {
		name string
		test Test
		args []string
		rows func(p *printer)
	}{
		{"write_bw_client", Test{Verb: Write}, []string{"host"}, func(p *printer) { p.bw(report) }},
		{"write_bw_server", Test{Verb: Write}, nil, func(p *printer) { p.bw(report) }},
		{"send_bw_ud_both_gbit", Test{Verb: Send},
			[]string{"-c", "UD", "-b", "-q", "4", "-s", "1024", "--report_gbits", "host"},
			func(p *printer) {
				p.bw(report)
				p.both(report, report)
				p.bw(bwReport{Size: 1, Iters: 2, Average: 0.05})
			}},
		{"read_bw", Test{Verb: Read}, []string{"host"}, func(p *printer) { p.bw(report) }},
		{"atomic_bw", Test{Verb: Atomic}, []string{"-A", "CMP_AND_SWAP", "host"}, func(p *printer) { p.bw(report) }},
		{"send_lat", Test{Verb: Send, Latency: true}, []string{"host"}, func(p *printer) { p.latency(lat) }},
		{"send_lat_all_results", Test{Verb: Send, Latency: true}, []string{"-U", "-H", "-e", "host"},
			func(p *printer) { p.latency(lat) }},
		{"write_lat_duration", Test{Verb: Write, Latency: true}, []string{"-D", "4", "host"},
			func(p *printer) { p.latencyTimed(latencyOverTime(2, 1000, 2e9, 2)) }},
		{"bandwidth_alone", Test{Verb: Write}, []string{"--output=bandwidth", "host"},
			func(p *printer) { p.bw(report) }},
		{"rate_alone", Test{Verb: Write}, []string{"--output=message_rate", "host"}, func(p *printer) { p.bw(report) }},
		{"latency_alone", Test{Verb: Read, Latency: true}, []string{"--output=latency", "host"},
			func(p *printer) { p.latency(lat) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			p := &printer{w: &out, o: mustParse(t, c.test, c.args...)}
			if !p.o.Driver() {
				p.waiting()
			}
			p.banner("roce_lo", ib.MTU1024, 0, 16)
			p.dest("local", &destValue)
			p.dest("remote", &far)
			p.head()
			c.rows(p)
			p.foot()
			golden(t, c.name+".txt", out.Bytes())
		})
	}
}
