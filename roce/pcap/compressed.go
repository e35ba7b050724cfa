package pcap

import (
	"bufio"
	"bytes"
	"compress/gzip"

	"github.com/klauspost/compress/zstd"
)

// How compressed files begin.
var (
	magicGzip = []byte{0x1F, 0x8B}
	magicZstd = []byte{0x28, 0xB5, 0x2F, 0xFD}
)

// maxWindow bounds the memory that a zstd file may ask for: what "zstd --long" does by default.
const maxWindow = 128 << 20

// decompress puts a decompressor before the reader if the file needs one.
func (f *Reader) decompress() error {
	head, _ := f.r.Peek(4) // what is shorter is told of by NewReader
	switch {
	case bytes.HasPrefix(head, magicGzip):
		z, err := gzip.NewReader(f.r)
		if err != nil {
			return f.fail("the header of gzip is damaged", noEOF(err))
		}
		f.r = bufio.NewReaderSize(z, 1<<16)
	case bytes.HasPrefix(head, magicZstd):
		// Of one goroutine, the caller's: it need not be closed.
		z, err := zstd.NewReader(f.r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return f.fail("the header of zstd is damaged", noEOF(err))
		}
		f.r = bufio.NewReaderSize(z, 1<<16)
	}
	return nil
}
