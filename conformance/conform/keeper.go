package conform

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/switchlink"
	"github.com/goroce/goroce/roce/link/trace"
)

// keeper draws the packets of failed rows, and writes them to files.
type keeper struct {
	dir     string // empty for no files
	near    string // names of the ends
	far     string
	sw      *ether.Switch
	local   []netip.Addr
	explain func(w io.Writer, name string, capture io.Reader, local []netip.Addr) error

	mu      sync.Mutex
	n       int
	ladders int
}

// traced are the lines of a trace in what a row says.
var traced = regexp.MustCompile(`(?m)^ *[0-9.]+[a-zµ]+ .* op=0x.*\n?`)

// drawn reports whether a row may keep its ladder: the first ones of a run do.
func (k *keeper) drawn() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ladders++
	return k.ladders <= mostLadders
}

// keep writes the packets of a row's connection, as the device here has seen them, and beside them
// what they say in words. What cannot be written is said in the row.
func (k *keeper) keep(row matrix.Row, events []ether.Event) matrix.Row {
	if k.drawn() {
		row.Detail = strings.TrimSpace(traced.ReplaceAllString(row.Detail, ""))
		row.Ladder = ladder(events, k.near, k.far)
	}
	return k.write(row, len(events), func(w *trace.Writer) error {
		return ether.EachSeen(events, switchlink.Near, func(e ether.Event, out bool) error {
			return w.Packet(k.sw.Start().Add(e.At).UnixNano(), out, e.Pkt.IP(), nil)
		})
	})
}

// write makes the files of a row.
func (k *keeper) write(row matrix.Row, n int, packets func(*trace.Writer) error) matrix.Row {
	if n == 0 || k.dir == "" {
		return row // it failed before there was a packet
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n++
	path := filepath.Join(k.dir, fmt.Sprintf("%03d-%s", k.n, fileName(row)))
	if err := k.files(path, row, packets); err != nil {
		row.Detail += fmt.Sprintf("\nits packets could not be written: %v", err)
		return row
	}
	row.Packets = path + ".pcapng"
	return row
}

func (k *keeper) files(path string, row matrix.Row, packets func(*trace.Writer) error) error {
	var capture, text bytes.Buffer
	w, err := trace.NewWriter(&capture)
	if err != nil {
		return err
	}
	if err := packets(w); err != nil {
		return err
	}
	if err := os.MkdirAll(k.dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".pcapng", capture.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(&text, "%s\n", row.Label())
	if row.Title != "" {
		fmt.Fprintf(&text, "%s\n", row.Title)
	}
	fmt.Fprintf(&text, "%s\n\n%s\n\n", row.Authority, row.Detail)
	if row.Group == drillsGroup {
		text.WriteString("What follows is of a drill's packets: what it leaves out, repeats or damages on purpose looks like a fault of the way.\n\n")
	}
	if k.explain != nil {
		err = k.explain(&text, path+".pcapng", &capture, k.local)
	}
	return errors.Join(err, os.WriteFile(path+".txt", text.Bytes(), 0o644))
}

// fileName is the name of a row in letters that any file system takes.
func fileName(row matrix.Row) string {
	s := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, fmt.Sprintf("%s-%s-%s-%d-%d-%s-%s", row.Group, row.Op, row.Role, row.MTU, row.Size, row.Family, row.Fault))
	for strings.Contains(s, "--") {
		s = strings.ReplaceAll(s, "--", "-")
	}
	const most = 120
	return strings.Trim(s[:min(len(s), most)], "-")
}
