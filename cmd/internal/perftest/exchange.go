package perftest

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/cmd/internal/oob"
	"github.com/goroce/goroce/ib"
)

// carrier is what the exchange takes place on: a TCP connection, or the control.
type carrier interface {
	// Swap exchanges one message: the client sends first.
	Swap(what string, mine, theirs []byte) error
	LocalAddr() netip.Addr
	Close() error
}

// exchange is the conversation over TCP, or over the control. Which messages are exchanged when is
// a matter of the test; see run.go.
type exchange struct {
	conn carrier
	mine []dest // one for each QP
	peer []dest

	cycleBuffer int // bytes that successive messages walk through
	cacheLine   int // bytes between the starts of small messages
	mtu         ib.MTU
	version     string

	// keepAlive, if set, is in force while this side waits for the peer; see session.keepAlive.
	keepAlive func() (stop func())
}

// preamble exchanges version, page size, cache line and MTU. Both sides go on
// with the larger page and cache line, and with the smaller MTU.
func (x *exchange) preamble(mtu ib.MTU) error {
	theirs := make([]byte, versionBytes)
	if err := x.conn.Swap("version", versionMessage(), theirs); err != nil {
		return err
	}
	var err error
	if x.version, err = parseVersion(theirs); err != nil {
		return err
	}
	if x.cycleBuffer, err = x.larger("page size", pageSize, maxCycleBuffer); err != nil {
		return err
	}
	if x.cacheLine, err = x.larger("cache line size", cacheLineSize, maxCacheLineSize); err != nil {
		return err
	}
	in := make([]byte, 2)
	if err = x.conn.Swap("MTU", []byte{'0' + byte(mtu), 0}, in); err != nil {
		return err
	}
	x.mtu = commonMTU(mtu, in)
	return nil
}

// withoutPreamble is --dont_xchg_versions.
func (x *exchange) withoutPreamble(mtu ib.MTU) {
	x.cycleBuffer, x.cacheLine, x.mtu = pageSize, cacheLineSize, mtu
}

func (x *exchange) larger(what string, mine, most int) (int, error) {
	var out, in [4]byte
	binary.BigEndian.PutUint32(out[:], uint32(mine))
	if err := x.conn.Swap(what, out[:], in[:]); err != nil {
		return 0, err
	}
	theirs := binary.BigEndian.Uint32(in[:])
	if theirs > uint32(most) {
		return 0, fmt.Errorf("the peer's %s of %d bytes is more than %d", what, theirs, most)
	}
	return max(mine, int(theirs)), nil
}

// commonMTU returns the smaller of mine and the peer's, a digit; one that
// makes no sense is passed over, as the originals do.
func commonMTU(mine ib.MTU, msg []byte) ib.MTU {
	theirs := ib.MTU(msg[0] - '0')
	if theirs.Valid() && theirs < mine {
		return theirs
	}
	return mine
}

// keys exchanges the keys of every QP.
func (x *exchange) keys() error {
	for i := range x.mine {
		if err := x.swapDest(i); err != nil {
			return err
		}
	}
	return nil
}

// barrier exchanges the first QP's keys again: nobody passes it before both have reached it.
func (x *exchange) barrier() error { return x.swapDest(0) }

func (x *exchange) swapDest(i int) error {
	if x.keepAlive != nil {
		defer x.keepAlive()()
	}
	d, err := x.swapKeys(&x.mine[i])
	if err != nil {
		return err
	}
	if known := x.peer[i]; known.QPN != 0 && known.QPN != d.QPN {
		return fmt.Errorf("the peer's keys are of QP %v where those of %v were due: both sides must run the same test with the same options (-q, -a, -b, -c)", d.QPN, known.QPN)
	}
	x.peer[i] = d
	return nil
}

// swapKeys exchanges one message of keys: text on TCP, a structure on the control.
func (x *exchange) swapKeys(mine *dest) (dest, error) {
	if _, binary := x.conn.(*control); binary {
		in := make([]byte, destStructBytes)
		if err := x.conn.Swap("keys", mine.appendStruct(nil), in); err != nil {
			return dest{}, err
		}
		return parseDestStruct(in), nil
	}
	in := make([]byte, destBytes)
	if err := x.conn.Swap("keys", mine.append(nil), in); err != nil {
		return dest{}, err
	}
	return parseDest(in)
}

// finish is the last barrier, after which both sides say "done" and hang up.
func (x *exchange) finish() error {
	if err := x.barrier(); err != nil {
		return err
	}
	if tcp, ok := x.conn.(*oob.Conn); ok {
		// The peer may be gone already; it does not read this.
		_ = tcp.Write("goodbye", []byte("done\x00"))
	}
	return x.conn.Close()
}
