package demo

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/verbs"
)

// answerTimeout bounds every wait of the peer: the data is on its way when it
// is asked.
const answerTimeout = 10 * time.Second

// node is what both processes make on their device.
type node struct {
	dev *verbs.Device
	pd  *verbs.PD
	cq  *verbs.CQ
	buf *verbs.MappedBuffer
	mr  *verbs.MR
	qps [numQPs]*verbs.QP
	wcs [16]verbs.WC
}

// newNode registers memory and makes QPs.
func newNode(dev *verbs.Device) (*node, error) {
	n := &node{dev: dev}
	var err error
	if n.pd, err = dev.AllocPD(); err != nil {
		return nil, err
	}
	access := verbs.LocalWrite | roce.RemoteWrite | roce.RemoteRead | roce.RemoteAtomic
	if n.buf, n.mr, err = n.pd.AllocBuffer(memoryBytes, access); err != nil {
		return nil, err
	}
	if n.cq, err = dev.CreateCQ(4*depth*numQPs, nil); err != nil {
		return nil, err
	}
	for i := range n.qps {
		n.qps[i], err = n.pd.CreateQP(verbs.QPInitAttr{
			Type: verbs.RC, SendCQ: n.cq,
			Caps: verbs.QPCaps{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: 1, MaxRecvSGE: 1},
		})
		if err != nil {
			return nil, err
		}
	}
	return n, nil
}

func (n *node) infos() []qpInfo {
	var out []qpInfo
	for _, qp := range n.qps {
		out = append(out, infoOf(qp.LocalInfo(0)))
	}
	return out
}

func (n *node) connect(infos []qpInfo) error {
	if len(infos) != numQPs {
		return fmt.Errorf("%d QPs instead of %d", len(infos), numQPs)
	}
	for i, qp := range n.qps {
		r, err := infos[i].remote()
		if err != nil {
			return err
		}
		if err := qp.Connect(r, nil); err != nil {
			return err
		}
	}
	return nil
}

// wait returns the next completion, whatever its status.
func (n *node) wait(ctx context.Context) (verbs.WC, error) {
	if _, err := n.cq.Wait(ctx, n.wcs[:1]); err != nil {
		return verbs.WC{}, err
	}
	return n.wcs[0], nil
}

// memory returns the registered memory after taking the device's lock once,
// which orders this goroutine after whatever the device wrote before.
func (n *node) memory() []byte {
	n.qps[mainQP].State()
	return n.buf.Bytes()
}

// servePeer is the peer process: it answers requests until its input ends.
func servePeer(ctx context.Context, dev *verbs.Device, in io.Reader, out io.Writer) error {
	n, err := newNode(dev)
	if err != nil {
		return err
	}
	binary.NativeEndian.PutUint64(n.buf.Bytes()[wordOffset:], firstValue)
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var q request
		if err := dec.Decode(&q); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		r, err := n.answer(ctx, q)
		if err != nil {
			r.Error = err.Error()
		}
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
}

func (n *node) answer(ctx context.Context, q request) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	switch q.Op {
	case "hello":
		return reply{
			PID: os.Getpid(), Addr: n.dev.Addrs()[0].String(), QPs: n.infos(),
			VAddr: n.mr.Addr(), RKey: uint32(n.mr.RKey()),
		}, nil
	case "connect":
		if err := n.connect(q.QPs); err != nil {
			return reply{}, err
		}
		wr := verbs.RecvWR{ID: 1, SGList: []verbs.SGE{n.mr.SGE(dataOffset, dataBytes)}}
		return reply{}, n.qps[mainQP].PostRecv(&wr)
	case "received":
		wc, err := n.wait(ctx)
		if err != nil {
			return reply{}, fmt.Errorf("no message arrived: %w", err)
		}
		if err := verbs.WCError(&wc); err != nil {
			return reply{}, err
		}
		if int(wc.ByteLen) != q.Len {
			return reply{}, fmt.Errorf("a message of %d bytes arrived instead of %d", wc.ByteLen, q.Len)
		}
		return reply{}, n.check(dataOffset, q.Len, q.Seed)
	case "check":
		if q.Off < 0 || q.Len < 0 || q.Off > memoryBytes-q.Len {
			return reply{}, errors.New("outside the memory")
		}
		return reply{}, n.check(q.Off, q.Len, q.Seed)
	case "fill":
		pattern(n.memory()[dataOffset:dataOffset+dataBytes], q.Seed)
		return reply{}, nil
	case "word":
		return reply{Word: binary.NativeEndian.Uint64(n.memory()[wordOffset:])}, nil
	case "event":
		return n.accessError(ctx)
	}
	return reply{}, fmt.Errorf("unknown request %q", q.Op)
}

// accessError waits for the asynchronous event about a refused access. Others
// may precede it.
func (n *node) accessError(ctx context.Context) (reply, error) {
	for {
		e, err := n.dev.AsyncEvent(ctx)
		if err != nil {
			return reply{}, fmt.Errorf("no event about a refused access: %w", err)
		}
		if e.QP == n.qps[victimQP] && (e.Type == verbs.EventQPAccessError || e.Type == verbs.EventQPFatal) {
			return reply{Event: e.Type.String()}, nil
		}
	}
}

// check compares memory with what belongs there.
func (n *node) check(off, length int, seed uint64) error {
	if i := differs(n.memory()[off:off+length], seed); i >= 0 {
		return fmt.Errorf("byte %d of %d at offset %d is wrong", i, length, off)
	}
	return nil
}
