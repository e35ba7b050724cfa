package toolcheck

import (
	"bytes"
	"sync"
)

// Output is what a tool prints, which may be read while it runs.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write adds to it.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// String returns what was printed so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
