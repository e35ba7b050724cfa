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
	if len(events) == 0 {
		return row // it failed before there was a packet
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n++
	path := filepath.Join(k.dir, fmt.Sprintf("%03d-%s", k.n, fileName(row)))
	var capture bytes.Buffer
	err := wire.WritePcap(&capture, k.sw.Start(), events, wirelink.Near)
	if err == nil {
		err = os.MkdirAll(k.dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(path+".pcap", capture.Bytes(), 0o644)
	}
	if err == nil && k.explain != nil {
		var text bytes.Buffer
		fmt.Fprintf(&text, "%s\n\n%s\n\n", row.Label(), row.Detail)
		err = errors.Join(k.explain(&text, path+".pcap", &capture, k.local), os.WriteFile(path+".txt", text.Bytes(), 0o644))
	}
	if err != nil {
		row.Detail += fmt.Sprintf("\nits packets could not be written: %v", err)
		return row
	}
	row.Packets = path + ".pcap"
	return row
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
