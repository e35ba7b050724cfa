package conform

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// locked is a writer for several goroutines.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// prefixed keeps what the other process says when it fails, and passes on the rest of it, but for
// the comings and goings of its only client.
type prefixed struct {
	w    io.Writer
	part []byte
	last string
}

func (p *prefixed) Write(b []byte) (int, error) {
	p.part = append(p.part, b...)
	for {
		i := bytes.IndexByte(p.part, '\n')
		if i < 0 {
			return len(b), nil
		}
		p.last = string(p.part[:i])
		p.part = p.part[i+1:]
		if strings.HasPrefix(p.last, "agent: ") {
			continue
		}
		if _, err := io.WriteString(p.w, "the other process: "+p.last+"\n"); err != nil {
			return 0, err
		}
	}
}
