package drill

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// listener is an application of RDMA-CM on a device of this module: it accepts every request and
// does nothing else, until the peer disconnects.
type listener struct {
	dev *verbs.Device
	at  netip.Addr

	events *rdmacm.EventChannel
	pd     *verbs.PD
	cq     *verbs.CQ
	ids    []*rdmacm.ID
}

// listen begins to listen at a free port.
func (l *listener) listen(t peer.Type) (port int, err error) {
	if l.events == nil {
		if l.events, err = rdmacm.CreateEventChannel(l.dev); err != nil {
			return 0, err
		}
		if l.pd, err = l.dev.AllocPD(); err != nil {
			return 0, err
		}
		if l.cq, err = l.dev.CreateCQ(64, nil); err != nil {
			return 0, err
		}
	}
	space := rdmacm.PortSpaceTCP
	if t == peer.UD {
		space = rdmacm.PortSpaceUDP
	}
	id, err := rdmacm.CreateID(l.events, space)
	if err != nil {
		return 0, err
	}
	l.ids = append(l.ids, id)
	if err := id.BindAddr(netip.AddrPortFrom(l.at, 0)); err != nil {
		return 0, err
	}
	return int(id.LocalAddr().Port()), id.Listen(rdmacm.ListenLimits{Backlog: 8})
}

// serve handles the events that have come.
func (l *listener) serve() error {
	if l.events == nil {
		return nil
	}
	for e := l.events.Poll(); e != nil; e = l.events.Poll() {
		if err := l.handle(e); err != nil {
			return fmt.Errorf("%v: %w", e.Type, err)
		}
	}
	return nil
}

func (l *listener) handle(e *rdmacm.Event) error {
	switch e.Type {
	case rdmacm.EventConnectRequest:
		l.ids = append(l.ids, e.ID)
		if _, err := e.ID.CreateQP(l.pd, verbs.QPInitAttr{SendCQ: l.cq}); err != nil {
			return err
		}
		return e.ID.Accept(nil)
	case rdmacm.EventDisconnected:
		return e.ID.Disconnect(nil)
	}
	return nil
}

// Close ends all that was made.
func (l *listener) Close() error {
	if l.events == nil {
		return nil
	}
	var errs []error
	for i := len(l.ids) - 1; i >= 0; i-- {
		errs = append(errs, l.ids[i].Close())
	}
	if l.cq != nil {
		errs = append(errs, l.cq.Close())
	}
	if l.pd != nil {
		errs = append(errs, l.pd.Close())
	}
	return errors.Join(append(errs, l.events.Close())...)
}
