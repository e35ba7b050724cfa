package rdmacm

import "encoding/binary"

// pingInfo is the message of rping: where the peer's buffer is. The server
// sends it, too, but only its arrival matters. The client sends one for the
// buffer that the server is to READ and then one for that which it WRITEs.
type pingInfo struct {
	addr uint64
	rkey uint32
	size uint32 // bytes
}

const pingInfoBytes = 16

func (p *pingInfo) put(b []byte) {
	binary.BigEndian.PutUint64(b, p.addr)
	binary.BigEndian.PutUint32(b[8:], p.rkey)
	binary.BigEndian.PutUint32(b[12:], p.size)
}

func (p *pingInfo) decode(b []byte) {
	p.addr = binary.BigEndian.Uint64(b)
	p.rkey = binary.BigEndian.Uint32(b[8:])
	p.size = binary.BigEndian.Uint32(b[12:])
}
