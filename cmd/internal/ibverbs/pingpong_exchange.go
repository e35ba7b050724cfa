package ibverbs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/cmd/internal/oob"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/verbs"
)

// introduce exchanges addresses and connects the QPs.
func (s *session) introduce(ctx context.Context) error {
	conn, err := s.meet(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if conn.Client() {
		if err := s.sendDests(conn); err != nil {
			return err
		}
		if err := s.readDests(conn); err != nil {
			return err
		}
		if err := conn.Write("goodbye", []byte("done\x00")); err != nil {
			return err
		}
		return s.connect()
	}
	if err := s.readDests(conn); err != nil {
		return err
	}
	if err := s.connect(); err != nil {
		return err
	}
	if err := s.sendDests(conn); err != nil {
		return err
	}
	return conn.Read("the client's goodbye", make([]byte, len("done\x00")))
}

func (s *session) meet(ctx context.Context) (*oob.Conn, error) {
	if s.o.Host != "" {
		return oob.Dial(ctx, s.o.Host, s.o.Port, netip.Addr{})
	}
	l, err := oob.Listen(ctx, s.o.Port, netip.Addr{})
	if err != nil {
		return nil, err
	}
	if s.env.Listening != nil {
		s.env.Listening(l.Addr())
	}
	return l.Accept(ctx)
}

// messages is how many addresses are exchanged: srq_pingpong always sends its whole table.
func (o *Options) messages() int {
	if o.Kind == SRQ {
		return maxQPs
	}
	return 1
}

func (s *session) sendDests(conn *oob.Conn) error {
	var all []byte
	for i := range s.o.messages() {
		d := dest{}
		if i < len(s.mine) {
			d = s.mine[i]
		}
		all = d.append(all)
	}
	// One write for each, as a peer reads them.
	for ; len(all) > 0; all = all[destBytes:] {
		if err := conn.Write("addresses", all[:destBytes]); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) readDests(conn *oob.Conn) error {
	msg := make([]byte, destBytes)
	for i := range s.o.messages() {
		if err := conn.Read("the peer's addresses", msg); err != nil {
			return err
		}
		d, err := parseDest(msg)
		if err != nil {
			return err
		}
		if i < s.o.QPs {
			s.peer = append(s.peer, d)
		}
	}
	return nil
}

// connect takes all QPs to RTS.
func (s *session) connect() error {
	o := s.o
	for i, qp := range s.qps {
		d := s.peer[i]
		if d.QPN == 0 {
			return fmt.Errorf("the peer has fewer than %d QPs: give -q the same number on both sides", o.QPs)
		}
		if d.GID.IsZero() {
			return errors.New(
				"the peer gave no GID: on its side choose one with -g (on rdma_rxe, -g 1 is the IPv4 one)")
		}
		if mine, theirs := s.mine[i].GID.Addr(), d.GID.Addr(); mine.Is4() != theirs.Is4() {
			return fmt.Errorf(
				"this side speaks from %v, the peer from %v: choose addresses of one family (--addr here, -g)", mine,
				theirs)
		}
		c := verbs.ConnAttr{
			SGIDIndex: s.gidIndex, MTU: o.MTU, Timeout: ib.TimeoutCode(o.QPTimeout), RetryCnt: retryCount,
			RNRRetry: retryCount, MinRNRTimer: minRNRTimer, MaxRdAtomic: 1, MaxDestRdAtomic: 1,
		}
		if err := qp.ToRTR(verbs.RemoteInfo{QPN: d.QPN, PSN: d.PSN, GID: d.GID}, c); err != nil {
			return fmt.Errorf("connect to %s: %w", tool.GIDText(d.GID.Addr()), err)
		}
		if err := qp.ToRTS(c); err != nil {
			return fmt.Errorf("connect to %s: %w", tool.GIDText(d.GID.Addr()), err)
		}
	}
	if o.Kind == UD {
		var err error
		s.ah, err = s.pd.CreateAH(verbs.AddressVector{DGID: s.peer[0].GID, SGIDIndex: s.gidIndex})
		return err
	}
	return nil
}
