package capture

import (
	"bufio"
	"encoding/binary"
	"io"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
)

// ngMagic begins a pcapng file (section header block).
const ngMagic = 0x0A0D0D0A

// maxPacketBytes is what files that are written here say of their packets' length.
const maxPacketBytes = 1 << 17

// Reader reads a pcap or a pcapng file.
type Reader struct {
	file interface {
		gopacket.PacketDataSource
		LinkType() layers.LinkType
	}
}

// NewReader reads the header of a file.
func NewReader(r io.Reader) (*Reader, error) {
	b := bufio.NewReader(r)
	head, err := b.Peek(4)
	if err != nil {
		return nil, err
	}
	f := &Reader{}
	if binary.LittleEndian.Uint32(head) == ngMagic {
		f.file, err = pcapgo.NewNgReader(b, pcapgo.DefaultNgReaderOptions)
	} else {
		f.file, err = pcapgo.NewReader(b)
	}
	return f, err
}

// Next returns the next packet and when it was seen; io.EOF at the end.
func (f *Reader) Next() (*Packet, time.Time, error) {
	data, info, err := f.file.ReadPacketData()
	if err != nil {
		return nil, time.Time{}, err
	}
	return parse(data, f.file.LinkType()), info.Timestamp, nil
}

// Write writes a pcap file of Ethernet frames, a microsecond apart.
func Write(w io.Writer, frames []*Packet) error {
	out := pcapgo.NewWriter(w)
	if err := out.WriteFileHeader(maxPacketBytes, layers.LinkTypeEthernet); err != nil {
		return err
	}
	for i, p := range frames {
		n := len(p.Data)
		info := gopacket.CaptureInfo{Timestamp: time.UnixMicro(int64(i)), CaptureLength: n, Length: n}
		if err := out.WritePacket(info, p.Data); err != nil {
			return err
		}
	}
	return nil
}
