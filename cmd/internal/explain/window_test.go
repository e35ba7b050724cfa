package explain

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/goroce/goroce/roce/analyse"
	"github.com/stretchr/testify/require"
)

// frames are those that are drawn of a capture of 100, of which every tenth frame holds no packet.
func frames(w *window) (out []int) {
	for i := 1; i <= 100; i++ {
		if i%10 != 0 {
			w.add(row{frame: i})
		}
	}
	for r := range w.all() {
		out = append(out, r.frame)
	}
	return out
}

// Which packets are drawn.
func TestWindow(t *testing.T) {
	for _, c := range []struct {
		w    window
		want []int
	}{
		{window{most: 4}, []int{1, 2, 3, 4}},
		{window{most: 4, last: true}, []int{96, 97, 98, 99}},
		{window{most: 4, around: 50}, []int{48, 49, 51, 52}},
		{window{most: 4, around: 1}, []int{1, 2, 3, 4}},
		{window{most: 4, around: 2}, []int{1, 2, 3, 4}},
		{window{most: 4, around: 99}, []int{97, 98, 99}},
		{window{most: 4, around: 1000}, []int{98, 99}},
		{window{most: 1, around: 50}, []int{51}},
		{window{most: 5, around: 51}, []int{48, 49, 51, 52, 53}},
	} {
		require.Equal(t, c.want, frames(&c.w), "%+v", c.w)
		require.True(t, c.w.has(c.want[0]) && c.w.has(c.want[len(c.want)-1]))
		require.False(t, c.w.has(c.want[0]-1) || c.w.has(c.want[len(c.want)-1]+1))
	}
	require.Len(t, frames(&window{most: 1000, last: true}), 90)
	require.False(t, (&window{most: 4}).has(0))
}

// endless is a capture of n packets, made as it is read. At its end it says how much memory is in
// use.
type endless struct {
	head, packets []byte
	at, rounds    int
	used          uint64
}

func newEndless(t *testing.T, rounds int) *endless {
	b, err := os.ReadFile(captures + "rping.pcap") // 41 packets, without a finding
	require.NoError(t, err)
	return &endless{head: b[:24], packets: b[24:], rounds: rounds}
}

func (e *endless) Read(p []byte) (n int, err error) {
	switch {
	case len(e.head) > 0:
		n = copy(p, e.head)
		e.head = e.head[n:]
	case e.rounds == 0:
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		e.used = m.HeapAlloc
		return 0, io.EOF
	default:
		n = copy(p, e.packets[e.at:])
		if e.at += n; e.at == len(e.packets) {
			e.at, e.rounds = 0, e.rounds-1
		}
	}
	return n, nil
}

// counter counts what is written, and how much at a time.
type counter struct{ bytes, most int }

func (c *counter) Write(p []byte) (int, error) {
	c.bytes += len(p)
	c.most = max(c.most, len(p))
	return len(p), nil
}

// The memory that a page takes depends on what it draws, and not on the length of the capture.
func TestPageMemory(t *testing.T) {
	const most = 1000
	measure := func(rounds int) (used uint64, page counter) {
		in, drawn := newEndless(t, rounds), &window{most: most, last: true}
		e := &explanation{Name: "long"}
		require.NoError(t, e.read(in, analyse.Options{MaxFindings: 10, MaxRecords: 1000}, drawn))
		require.Equal(t, 41*rounds, e.Packets)
		require.NoError(t, e.page(drawn).write(&page))
		return in.used, page
	}
	short, shortPage := measure(100)
	long, longPage := measure(1500)
	require.Less(t, long, short+2<<20, "57,400 packets more; each is 40 bytes or more on the page, and 100 in memory")
	require.InDelta(t, shortPage.bytes, longPage.bytes, 20*most)
	require.Less(t, longPage.most, 2*writeSize, "written at a time")
}

// pageRows are the rows of a page, and the rest of its data.
func pageRows(t *testing.T, page string) (rows [][]any, rest map[string]any) {
	t.Helper()
	_, data, ok := strings.Cut(page, `id="data">`)
	require.True(t, ok)
	require.NoError(t, json.NewDecoder(strings.NewReader(data)).Decode(&rest))
	for _, r := range rest["rows"].([]any) {
		if r := r.([]any); r[0] != 0.0 { // not of a packet that is missing
			rows = append(rows, r)
		}
	}
	return rows, rest
}

// --last and --around choose what is drawn, and the page says so.
func TestPageOfAPart(t *testing.T) {
	file := captures + "rc_pingpong_loss.pcap"
	for _, c := range []struct {
		args        []string
		first, last float64
		rows        int
	}{
		{[]string{"--html", file}, 1, 677, 677},
		{[]string{"--html", "--last", "10", file}, 668, 677, 10},
		{[]string{"--html", "--around", "600", file}, 1, 677, 677},
	} {
		page, _, err := explained(t, c.args...)
		require.NoError(t, err)
		rows, rest := pageRows(t, page)
		require.Len(t, rows, c.rows)
		require.Equal(t, []any{c.first, c.last}, []any{rows[0][0], rows[len(rows)-1][0]})
		require.Equal(t, 677.0, rest["packets"])
	}
	for _, bad := range [][]string{{"--last", "5", file}, {"--html", "--last", "5", "--around", "5", file},
		{"--html", "--last", "0", file}, {"--html", "--last", "500001", file}} {
		_, _, err := explained(t, bad...)
		require.Error(t, err)
	}
}

// A long capture whose first finding comes late is drawn around that.
func TestPageOfALateFinding(t *testing.T) {
	clean, err := os.ReadFile(captures + "rping.pcap")
	require.NoError(t, err)
	bad, err := os.ReadFile(captures + "rc_pingpong_loss.pcap")
	require.NoError(t, err)
	var file bytes.Buffer
	file.Write(clean)
	late := binary.LittleEndian.Uint32(clean[24:])
	for at := 24; at+16 <= len(bad); at += 16 + int(binary.LittleEndian.Uint32(bad[at+8:])) {
		binary.LittleEndian.PutUint32(bad[at:], late+10)
	}
	file.Write(bad[24:])
	e, drawn := &explanation{}, &window{most: 40}
	in := bytes.NewReader(file.Bytes())
	require.NoError(t, e.read(in, analyse.Options{}, drawn))
	frame := e.firstFinding()
	require.Greater(t, frame, 41)
	require.False(t, drawn.has(frame))
	again, err := e.redraw(in, analyse.Options{}, drawn)
	require.NoError(t, err)
	require.True(t, again.has(frame))
	require.Len(t, again.rows, 40)
	// A pipe cannot be read again.
	same, err := e.redraw(io.MultiReader(in), analyse.Options{}, drawn)
	require.NoError(t, err)
	require.Same(t, drawn, same)
	require.Equal(t, 41+677, e.Packets)
}
