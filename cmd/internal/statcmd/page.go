package statcmd

import "bytes"

// page is what is printed at a time; on a live screen no more than it has rows.
type page struct {
	b    bytes.Buffer
	rows int // 0: any number
	had  int
}

// Write takes lines. What does not fit is left out.
func (p *page) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		if p.rows > 0 && p.had >= p.rows {
			return n, nil
		}
		end := bytes.IndexByte(b, '\n') + 1
		if end == 0 {
			end = len(b)
		} else {
			p.had++
		}
		p.b.Write(b[:end])
		b = b[end:]
	}
	return n, nil
}
