package ether

import (
	"encoding/binary"
	"time"
)

// pcap's numbers: magic of the nanosecond format, link type Ethernet.
const (
	pcapMagicNs  = 0xa1b23c4d
	pcapEthernet = 1
)

func pcapHeader() []byte {
	h := binary.LittleEndian.AppendUint32(nil, pcapMagicNs)
	h = binary.LittleEndian.AppendUint16(h, 2)
	h = binary.LittleEndian.AppendUint16(h, 4)
	h = append(h, make([]byte, 8)...)
	h = binary.LittleEndian.AppendUint32(h, MaxFrame)
	return binary.LittleEndian.AppendUint32(h, pcapEthernet)
}

// pcapRecord appends a record: its header and the frame.
func pcapRecord(b []byte, at time.Time, frame []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(at.Unix()))
	b = binary.LittleEndian.AppendUint32(b, uint32(at.Nanosecond()))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(frame)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(frame)))
	return append(b, frame...)
}

// Start is the time from which Event.At counts.
func (s *Switch) Start() time.Time { return s.start }

// EachSeen calls f for what the device at a port has seen of some events: what it sent, whatever
// became of that, and what reached it. out is set for what it sent. The first error ends it.
func EachSeen(events []Event, port string, f func(e Event, out bool) error) error {
	for _, e := range events {
		own := e.From == port
		times := 1
		switch {
		case own && e.Fate == "release": // seen when it was held back
			times = 0
		case !own && (!e.Delivered() || e.Fate == "corrupt"):
			times = 0
		case !own && e.Fate == "duplicate":
			times = 2
		}
		for range times {
			if err := f(e, own); err != nil {
				return err
			}
		}
	}
	return nil
}
