package tool

import (
	"bufio"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/trace"
	"github.com/goroce/goroce/roce/verbs"
)

// traced has devices write their packets to the file of --trace.
func (d *DeviceOptions) traced(open OpenFunc, cfg *verbs.Config) (OpenFunc, error) {
	if d.Trace == "" {
		return open, nil
	}
	f, err := os.Create(d.Trace)
	if err != nil {
		return nil, err
	}
	out := &traceFile{f: f, w: f}
	// The reader of a pipe wants to see packets as they come; a file is written in large pieces.
	if i, err := f.Stat(); err == nil && i.Mode().IsRegular() {
		out.buffer = bufio.NewWriterSize(f, 1<<16)
		out.w = out.buffer
	}
	cfg.WrapLink = func(l link.Link) (link.Link, error) { return trace.New(l, out) }
	return func(cfg verbs.Config) (*verbs.Device, func() error, error) {
		dev, release, err := open(cfg)
		if err != nil {
			return nil, nil, err
		}
		return dev, func() error { return errors.Join(release(), out.close()) }, nil
	}, nil
}

// traceFile is the file of a trace. Packets that come after it was closed are left out.
type traceFile struct {
	mu     sync.Mutex
	f      *os.File
	buffer *bufio.Writer
	w      io.Writer
}

func (t *traceFile) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w.Write(b)
}

func (t *traceFile) close() (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.buffer != nil {
		err = t.buffer.Flush()
	}
	return errors.Join(err, t.f.Close())
}
