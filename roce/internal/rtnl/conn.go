package rtnl

import (
	"errors"
	"net/netip"
	"time"

	"github.com/goroce/goroce/internal/unix"
	"github.com/mdlayher/netlink"
)

const (
	// receiveBytes holds any answer; the kernel fills at most 32 KiB at a time.
	receiveBytes = 64 << 10
	// answerTimeout bounds the wait for an answer, which the kernel has ready when the request
	// returns. That may take longer: the kernel changes other interfaces meanwhile.
	answerTimeout = 2 * time.Second
)

// Conn is a socket for queries.
type Conn struct {
	c conversation
}

// conversation is what a Conn needs of a [netlink.Conn].
type conversation interface {
	Send(netlink.Message) (netlink.Message, error)
	SetReadDeadline(time.Time) error
	Receive() ([]netlink.Message, error)
	Close() error
}

// Dial opens a socket for queries.
func Dial() (*Conn, error) {
	c, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{MessageBufferSize: receiveBytes})
	if err != nil {
		return nil, err
	}
	return &Conn{c}, nil
}

// Close closes the socket.
func (c *Conn) Close() error { return c.c.Close() }

// do sends a request and returns the messages of the answer. The error is
// an errno if the kernel refused.
func (c *Conn) do(typ uint16, flags netlink.HeaderFlags, body []byte) ([]netlink.Message, error) {
	req, err := c.c.Send(netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(typ), Flags: flags | netlink.Request}, Data: body,
	})
	if err == nil {
		err = c.c.SetReadDeadline(time.Now().Add(answerTimeout))
	}
	if err != nil {
		return nil, err
	}
	for {
		answer, err := c.c.Receive()
		var refusal *netlink.OpError
		switch {
		case errors.As(err, &refusal) && refusal.Sequence == req.Header.Sequence:
			return nil, refusal.Err
		case refusal != nil && refusal.Sequence != 0:
			// of a request that timed out
		case err != nil:
			return nil, err
		case netlink.Validate(req, answer) == nil:
			return answer, nil
		}
	}
}

// ErrNoAnswer is returned when the kernel answers with something else.
var ErrNoAnswer = errors.New("rtnl: unexpected answer of the kernel")

// Links returns all interfaces.
func (c *Conn) Links() ([]Link, error) {
	return list(c, unix.RTM_GETLINK, unix.RTM_NEWLINK, unix.SizeofIfInfomsg, parseLink)
}

// Addresses returns all local addresses.
func (c *Conn) Addresses() ([]Address, error) {
	return list(c, unix.RTM_GETADDR, unix.RTM_NEWADDR, unix.SizeofIfAddrmsg, parseAddress)
}

// list asks for all there is of a kind. fixedBytes is the length of the request's fixed part.
func list[T any](c *Conn, get, is uint16, fixedBytes int, parse func([]byte) (T, bool)) ([]T, error) {
	answer, err := c.do(get, netlink.Dump, make([]byte, fixedBytes))
	if err != nil {
		return nil, err
	}
	all := make([]T, 0, len(answer))
	for _, m := range answer {
		if v, ok := parse(m.Data); ok && uint16(m.Header.Type) == is {
			all = append(all, v)
		}
	}
	return all, nil
}

// one asks for one thing.
func one[T any](c *Conn, get, is uint16, body []byte, parse func([]byte) (T, bool)) (T, error) {
	answer, err := c.do(get, 0, body)
	if err == nil {
		for _, m := range answer {
			if v, ok := parse(m.Data); ok && uint16(m.Header.Type) == is {
				return v, nil
			}
		}
		err = ErrNoAnswer
	}
	var none T
	return none, err
}

// Route asks which way packets of protocol UDP from src go to dst. index, if not 0, is the
// interface to leave by. The error is an errno such as ENETUNREACH if there is no way.
func (c *Conn) Route(dst, src netip.Addr, index int) (Route, error) {
	fixed := make([]byte, unix.SizeofRtMsg)
	fixed[0] = family(dst)
	fixed[1], fixed[2] = byte(dst.BitLen()), byte(src.BitLen())
	ae := netlink.NewAttributeEncoder()
	ae.Bytes(unix.RTA_DST, dst.AsSlice())
	ae.Bytes(unix.RTA_SRC, src.AsSlice())
	if index != 0 {
		ae.Uint32(unix.RTA_OIF, uint32(index))
	}
	attrs, err := ae.Encode()
	if err != nil {
		return Route{}, err
	}
	return one(c, unix.RTM_GETROUTE, unix.RTM_NEWROUTE, append(fixed, attrs...), parseRoute)
}

// Neighbour looks up an entry of the neighbour table; ENOENT if there is none.
func (c *Conn) Neighbour(k NeighbourKey) (Neighbour, error) {
	body, err := neighbourRequest(k, 0)
	if err != nil {
		return Neighbour{}, err
	}
	return one(c, unix.RTM_GETNEIGH, unix.RTM_NEWNEIGH, body, parseNeighbour)
}

// Probe makes the kernel resolve or confirm a neighbour, as if it had a packet
// for it. It needs CAP_NET_ADMIN.
func (c *Conn) Probe(k NeighbourKey) error {
	body, err := neighbourRequest(k, unix.NTF_USE)
	if err != nil {
		return err
	}
	_, err = c.do(unix.RTM_NEWNEIGH, netlink.Create|netlink.Acknowledge, body)
	return err
}

func neighbourRequest(k NeighbourKey, flags byte) ([]byte, error) {
	fixed := make([]byte, unix.SizeofNdMsg)
	fixed[0] = family(k.Addr)
	native.PutUint32(fixed[4:], uint32(k.Index))
	fixed[10] = flags
	ae := netlink.NewAttributeEncoder()
	ae.Bytes(unix.NDA_DST, k.Addr.AsSlice())
	attrs, err := ae.Encode()
	return append(fixed, attrs...), err
}

func family(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
