package rsocket

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
)

// Mapping is memory of this side that the peer can write (riomap).
type Mapping struct {
	c     *Conn
	buf   []byte
	mr    *verbs.MR
	index int
	once  sync.Once
}

// Map lets the peer write buf with riowrite ([Conn.WriteAt] here), as bytes off to off+len(buf) of
// a separate name space (riomap). The peer must have been made with room for mappings
// ([Config.IOMaps], RDMA_IOMAPSIZE). It knows of the mapping once it has received something that
// was written after Map.
//
// Writes of the peer give no notice: it sends a message, or leaves a mark in the memory. After a
// message, call [Mapping.Sync] before looking at the memory; look for a mark with [Mapping.ReadAt].
func (c *Conn) Map(buf []byte, off int64) (*Mapping, error) {
	if !c.valid() {
		return nil, errInvalid
	}
	c.wmu.Lock()
	defer c.wmu.Unlock()
	m, err := c.mapBuf(buf, off)
	return m, opError("map", c.laddr, c.raddr, err)
}

func (c *Conn) mapBuf(buf []byte, off int64) (*Mapping, error) {
	if off < 0 || len(buf) == 0 || uint64(len(buf)) > math.MaxUint32 || off > math.MaxInt64-int64(len(buf)) {
		return nil, mapArgError(buf, off)
	}
	c.mu.Lock()
	defer c.leave()
	if err := c.refused(&c.wr); err != nil {
		return nil, err
	}
	index := c.freeIndex()
	if index < 0 || !c.s.mapsLeft() {
		return nil, ErrNoMaps
	}
	mr, err := c.pd.RegisterMR(buf, verbs.LocalWrite|roce.RemoteWrite, nil)
	if err != nil {
		return nil, err
	}
	for err = c.writeEnd(); err == nil && !c.s.canMap(); err = c.writeEnd() {
		if err = c.wait(&c.wr); err != nil {
			break
		}
	}
	if err == nil {
		c.s.mapping(index, iomap{uint64(off), sge{mr.Addr(), uint32(mr.RKey()), uint32(len(buf))}}, &c.cmsg)
		c.postControl()
		err = c.err
	}
	if err != nil {
		_ = mr.Close() // the peer does not know of it
		return nil, err
	}
	m := &Mapping{c: c, buf: buf, mr: mr, index: index}
	c.maps = append(c.maps, m)
	return m, nil
}

func mapArgError(buf []byte, off int64) error {
	switch {
	case len(buf) == 0:
		return argError("map", "buf", "empty")
	case uint64(len(buf)) > math.MaxUint32:
		return argError("map", "buf", fmt.Sprintf("%d bytes, more than %d", len(buf), uint32(math.MaxUint32)))
	case off < 0:
		return argError("map", "off", fmt.Sprintf("%d is negative", off))
	}
	return argError("map", "off", fmt.Sprintf("%d and %d bytes are more than %d", off, len(buf), int64(math.MaxInt64)))
}

// freeIndex returns a free entry of the peer's table, or -1.
func (c *Conn) freeIndex() int {
next:
	for i := range c.s.peer.iomaps {
		for _, m := range c.maps {
			if m.index == i {
				continue next
			}
		}
		return i
	}
	return -1
}

// Sync makes everything that the peer has written so far visible to the caller.
func (m *Mapping) Sync() {
	if m.valid() {
		m.c.qp.State()
	}
}

// valid reports whether m was made by Map.
func (m *Mapping) valid() bool { return m != nil && m.c != nil }

// ReadAt copies the memory from offset off of the mapping, in order with the peer's writes, see
// [roce.MR.ReadAt]: once it has seen the end of a transfer, the rest is there as well. It is the
// way to wait for a mark; between looks in a loop, let others run. After Close, of the mapping or
// the connection, it reads the remaining content.
func (m *Mapping) ReadAt(p []byte, off int64) (int, error) {
	if !m.valid() {
		return 0, errInvalid
	}
	n, err := m.mr.ReadAt(p, off)
	if errors.Is(err, mem.ErrDestroyed) { // no one writes any more
		if n, err = copy(p, m.buf[min(off, int64(len(m.buf))):]), nil; n < len(p) {
			err = io.EOF
		}
	}
	return n, err
}

// Close takes the memory back (riounmap): a later write of the peer to it ends the connection. The
// peer is not told; the protocol has no message for it. Closing the connection does the same.
func (m *Mapping) Close() error {
	if !m.valid() {
		return nil
	}
	var err error
	m.once.Do(func() {
		c := m.c
		c.mu.Lock()
		defer c.mu.Unlock()
		for i, o := range c.maps {
			if o == m {
				c.maps = append(c.maps[:i], c.maps[i+1:]...)
				err = m.mr.Close()
				return
			}
		}
	})
	return opError("unmap", m.c.laddr, m.c.raddr, err)
}

// WriteAt writes p straight into memory that the peer has mapped (riowrite), in order with Write:
// the peer finds it there once it has read something that was written afterwards. The error matches
// ErrNotMapped if the peer has not mapped the bytes.
func (c *Conn) WriteAt(p []byte, off int64) (int, error) {
	if !c.valid() {
		return 0, errInvalid
	}
	c.wmu.Lock()
	n, err := c.writeAt(p, off)
	c.wmu.Unlock()
	return n, opError("write", c.laddr, c.raddr, err)
}

func (c *Conn) writeAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, argError("write", "off", fmt.Sprintf("%d is negative", off))
	}
	c.mu.Lock()
	defer c.leave()
	if err := c.refused(&c.wr); err != nil {
		return 0, err
	}
	for ramp := c.s.snd.begins(); n < len(p); ramp = min(4*ramp, maxTransfer) {
		if err := c.writeEnd(); err != nil {
			return n, err
		}
		at := uint64(off) + uint64(n)
		addr, key, there, ok := c.s.locate(at)
		if !ok {
			c.look() // the peer may have told us
			if addr, key, there, ok = c.s.locate(at); !ok {
				return n, ErrNotMapped
			}
		}
		k := 0
		if c.s.snd.staged == 0 { // data written before goes first
			k = c.s.snd.copied(min(len(p)-n, ramp))
		}
		if k == 0 {
			if err := c.wait(&c.wr); err != nil {
				return n, err
			}
			ramp /= 4
			continue
		}
		k = int(min(uint32(k), there))
		c.s.direct(addr, uint32(ib.RKey(key)), k, &c.wmsg)
		if err := c.postData(p[n:n+k], false); err != nil {
			return n, err
		}
		n += k
	}
	return n, nil
}
