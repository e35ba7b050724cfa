package pcap

import (
	"bufio"
	"bytes"
	"compress/gzip"

	"github.com/klauspost/compress/zstd"
)

// The first bytes of compressed files.
var (
	magicGzip = []byte{0x1F, 0x8B}
	magicZstd = []byte{0x28, 0xB5, 0x2F, 0xFD}
)

// maxWindow bounds the memory that a zstd file may ask for: the default of "zstd --long".
const maxWindow = 128 << 20

// decompress puts a decompressor before the reader if the file needs one.
func (f *Reader) decompress() error {
	head, _ := f.r.Peek(4) // NewReader reports files that are shorter
	switch {
	case bytes.HasPrefix(head, magicGzip):
		z, err := gzip.NewReader(f.r)
		if err != nil {
			return f.fail("the header of gzip is damaged", noEOF(err))
		}
		f.r = bufio.NewReaderSize(z, 1<<16)
	case bytes.HasPrefix(head, magicZstd):
		// It has no goroutines of its own, so it need not be closed.
		z, err := zstd.NewReader(f.r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow),
			zstd.WithDecoderLowmem(true))
		if err != nil {
			return f.fail("the header of zstd is damaged", noEOF(err))
		}
		f.r = bufio.NewReaderSize(z, 1<<16)
	}
	return nil
}
