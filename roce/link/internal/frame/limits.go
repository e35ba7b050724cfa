package frame

import "github.com/goroce/goroce/ib"

const (
	// EthernetBytes is the length of an Ethernet header without tag.
	EthernetBytes = 14
	// VLANTagBytes is the length of an 802.1Q tag.
	VLANTagBytes = 4
	// maxHeaderBytes is the longest header from Ethernet through UDP.
	maxHeaderBytes = EthernetBytes + VLANTagBytes + ip6Overhead

	// MaxIPBytes is the longest IP packet: a 16-bit length, which for IPv6 does not count the
	// header; links use the same limit for both.
	MaxIPBytes = 65535
	// ChecksumOffset is the offset of the checksum in the UDP header.
	ChecksumOffset = 6

	// defaultTTL is the hop limit of paths that have none.
	defaultTTL = 64

	ip4Overhead = ib.IPv4HeaderBytes + ib.UDPHeaderBytes
	ip6Overhead = ib.IPv6HeaderBytes + ib.UDPHeaderBytes
)
