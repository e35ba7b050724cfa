package mem

// Cursor walks over the bytes of an SGL: forwards a packet at a time, and to any offset when a
// message is sent again. It is a plain value that can be copied to remember a position, and it
// allocates nothing. It does not check that the SGL is still Valid; its user does, once a packet.
type Cursor struct {
	l   *SGL
	pos uint64 // bytes before the cursor
	seg int    // current segment
	off int    // bytes of it before the cursor
}

// Pos returns the offset from the start of the list, bytes.
func (c *Cursor) Pos() uint64 { return c.pos }

// Left returns how many bytes lie ahead.
func (c *Cursor) Left() uint64 {
	if c.l == nil {
		return 0
	}
	return c.l.n - c.pos
}

// Seek moves to an offset of the list; the end of the list is allowed. It reports false, and does
// not move, if pos is past the end.
func (c *Cursor) Seek(pos uint64) bool {
	if c.l == nil {
		return pos == 0
	}
	if pos > c.l.n {
		return false
	}
	skip := pos - c.pos
	if pos < c.pos {
		// Walk from the start: lists are short, and going back is rare.
		c.seg, c.off, skip = 0, 0, pos
	}
	for skip > 0 {
		ahead := uint64(len(c.l.segs[c.seg].bytes) - c.off)
		if skip < ahead {
			c.off += int(skip)
			break
		}
		skip -= ahead
		c.seg, c.off = c.seg+1, 0
	}
	c.pos = pos
	return true
}

// Next returns the bytes at the cursor that are contiguous in memory, at most n, and moves past
// them. It returns nil at the end.
func (c *Cursor) Next(n int) []byte {
	if n <= 0 || c.l == nil || c.seg >= len(c.l.segs) {
		return nil
	}
	b := c.l.segs[c.seg].bytes
	end := len(b)
	if n < end-c.off {
		end = c.off + n
	}
	piece := b[c.off:end:end]
	c.pos += uint64(len(piece))
	c.off = end
	if end == len(b) {
		c.seg, c.off = c.seg+1, 0
	}
	return piece
}

// Gather appends to dst the pieces of the next n bytes, and moves past them. It uses no more
// than the capacity of dst, so it never allocates, and returns how many bytes
// the pieces have: fewer than n if the list ends or dst is full.
func (c *Cursor) Gather(dst [][]byte, n int) ([][]byte, int) {
	total := 0
	for total < n && len(dst) < cap(dst) {
		piece := c.Next(n - total)
		if piece == nil {
			break
		}
		dst = append(dst, piece)
		total += len(piece)
	}
	return dst, total
}

// CopyIn writes src into the list at the cursor and moves past it. It returns
// how many bytes fitted.
func (c *Cursor) CopyIn(src []byte) int {
	total := 0
	for total < len(src) {
		piece := c.Next(len(src) - total)
		if piece == nil {
			break
		}
		total += copy(piece, src[total:])
	}
	return total
}

// CopyOut reads from the list at the cursor into dst and moves past it. It
// returns how many bytes there were.
func (c *Cursor) CopyOut(dst []byte) int {
	total := 0
	for total < len(dst) {
		piece := c.Next(len(dst) - total)
		if piece == nil {
			break
		}
		total += copy(dst[total:], piece)
	}
	return total
}
