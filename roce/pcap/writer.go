package pcap

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Writer writes a pcap file with times in nanoseconds.
type Writer struct {
	w    io.Writer
	link LinkType
	head [24]byte
}

// NewWriter writes the header of a file for frames of one link type.
func NewWriter(w io.Writer, link LinkType) (*Writer, error) {
	out := &Writer{w: w, link: link}
	h := out.head[:]
	le := binary.LittleEndian
	le.PutUint32(h, magicNano)
	le.PutUint16(h[4:], 2)
	le.PutUint16(h[6:], 4)
	le.PutUint32(h[16:], MaxRecordBytes)
	le.PutUint32(h[20:], uint32(link))
	_, err := w.Write(h)
	return out, err
}

// Write writes a frame. All frames of a file have the same link type.
func (w *Writer) Write(f *Frame) error {
	if f.Link != w.link {
		return fmt.Errorf("capture file: a frame of link type %q in a file of %q", f.Link, w.link)
	}
	h := w.head[:16]
	le := binary.LittleEndian
	le.PutUint32(h, uint32(f.AtNs/1e9))
	le.PutUint32(h[4:], uint32(f.AtNs%1e9))
	le.PutUint32(h[8:], uint32(len(f.Data)))
	le.PutUint32(h[12:], uint32(f.WireBytes))
	if _, err := w.w.Write(h); err != nil {
		return err
	}
	_, err := w.w.Write(f.Data)
	return err
}
