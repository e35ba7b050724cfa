package perftest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// controlBytes is the room for a message on the control; the longest is the
// keys of newer originals, 64 bytes, or their list of parameters, 320.
const controlBytes = 512

// control is the QP on which the exchange takes place: each message is a SEND.
type control struct {
	end      *cmEnd
	ctx      context.Context
	id       *rdmacm.ID
	pd       *verbs.PD
	scq, rcq *verbs.CQ
	mr       *verbs.MR // to send from, and to receive to
}

func (k *control) allocate() (err error) {
	dev := k.end.s.dev
	if k.pd, err = dev.AllocPD(); err != nil {
		return err
	}
	if k.scq, err = dev.CreateCQ(1, nil); err != nil {
		return err
	}
	if k.rcq, err = dev.CreateCQ(1, nil); err != nil {
		return err
	}
	k.mr, err = k.pd.RegisterMR(make([]byte, 2*controlBytes), verbs.LocalWrite, nil)
	return err
}

func (k *control) prepare(id *rdmacm.ID) error {
	_, err := id.CreateQP(k.pd, verbs.QPInitAttr{SendCQ: k.scq, RecvCQ: k.rcq, SigAll: true, Caps: verbs.QPCaps{
		MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1,
	}})
	if err != nil {
		return err
	}
	return k.post(id)
}

func (k *control) post(id *rdmacm.ID) error {
	return id.QP().PostRecv(&verbs.RecvWR{SGList: []verbs.SGE{k.mr.SGE(controlBytes, controlBytes)}})
}

func (k *control) wait(what string, cq *verbs.CQ) (*verbs.WC, error) {
	var wcs [1]verbs.WC
	_, err := cq.Wait(k.ctx, wcs[:])
	switch {
	case k.ctx.Err() != nil:
		return nil, context.Cause(k.ctx)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", what, err)
	case wcs[0].Status == verbs.WCFlushErr:
		return nil, fmt.Errorf("%s: the peer has hung up: its own output says why; both sides must run the same test with the same options", what)
	case wcs[0].Status != verbs.WCSuccess:
		return nil, fmt.Errorf("%s: %w", what, verbs.WCError(&wcs[0]))
	}
	return &wcs[0], nil
}

func (k *control) send(what string, msg []byte) error {
	copy(k.mr.Bytes(), msg)
	if err := k.id.QP().PostSend(&verbs.SendWR{
		Opcode: verbs.WRSend, SGList: []verbs.SGE{k.mr.SGE(0, len(msg))},
	}); err != nil {
		return fmt.Errorf("send %s: %w", what, err)
	}
	_, err := k.wait("send "+what, k.scq)
	return err
}

// recv receives a message of len(msg) bytes at least; newer originals add to the end.
func (k *control) recv(what string, msg []byte) error {
	wc, err := k.wait("read "+what, k.rcq)
	if err != nil {
		return err
	}
	if int(wc.ByteLen) < len(msg) {
		return fmt.Errorf(
			"read %s: the message has %d bytes instead of %d: both sides must run the same test with the same options",
			what, wc.ByteLen, len(msg))
	}
	copy(msg, k.mr.Bytes()[controlBytes:])
	return k.post(k.id)
}

// Swap exchanges one message, as oob.Conn.Swap does.
func (k *control) Swap(what string, mine, theirs []byte) error {
	if k.end.s.o.Host != "" {
		if err := k.send(what, mine); err != nil {
			return err
		}
		return k.recv("the peer's "+what, theirs)
	}
	if err := k.recv("the peer's "+what, theirs); err != nil {
		return err
	}
	return k.send(what, mine)
}

// LocalAddr returns this side's address.
func (k *control) LocalAddr() netip.Addr { return k.id.LocalAddr().Addr() }

// Close does nothing: the control outlives the exchange, see cmEnd.hangUp.
func (k *control) Close() error { return nil }

func (k *control) free() error {
	var errs []error
	if k.id != nil {
		errs = append(errs, k.id.Close()) // with the queue pair
	}
	for _, cq := range []*verbs.CQ{k.scq, k.rcq} {
		if cq != nil {
			errs = append(errs, cq.Close())
		}
	}
	if k.mr != nil {
		errs = append(errs, k.mr.Close())
	}
	if k.pd != nil {
		errs = append(errs, k.pd.Close())
	}
	return errors.Join(errs...)
}
