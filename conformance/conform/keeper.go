package conform

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/goroce/goroce/conformance/lab/wire"
	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/wirelink"
	"github.com/goroce/goroce/roce/link/trace"
)

// keeper writes the packets of failed rows to files.
type keeper struct {
	dir     string
	sw      *wire.Switch
	local   []netip.Addr
	explain func(w io.Writer, name string, capture io.Reader, local []netip.Addr) error

	mu sync.Mutex
	n  int
}

// keep writes the packets of a row's connection, as the device here has seen them, and beside them what they
// say in words. What cannot be written is said in the row.
func (k *keeper) keep(row matrix.Row, events []wire.Event) matrix.Row {
	return k.write(row, len(events), func(w *trace.Writer) error {
		return wire.EachSeen(events, wirelink.Near, func(e wire.Event, out bool) error {
			return w.Packet(k.sw.Start().Add(e.At).UnixNano(), out, e.Pkt.IP(), nil)
		})
	})
}

// write makes the files of a row.
func (k *keeper) write(row matrix.Row, n int, packets func(*trace.Writer) error) matrix.Row {
	if n == 0 {
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
	fmt.Fprintf(&text, "%s\n%s\n\n%s\n\n", row.Label(), row.Authority, row.Detail)
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
