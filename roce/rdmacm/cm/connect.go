package cm

import (
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
)

// Request is the content of a REQ, and how to send it.
type Request struct {
	Local, Remote netip.Addr
	Service       mad.ServiceID
	Transport     mad.TransportType // RC or UC
	QPN           ib.QPN
	QKey          ib.QKey
	StartingPSN   ib.PSN // the first PSN expected from the peer

	ResponderResources uint8
	InitiatorDepth     uint8
	FlowControl        bool
	RetryCount         uint8
	RNRRetryCount      uint8
	SRQ                bool
	ECE                ECE

	MTU          ib.MTU
	AckTimeout   ib.TimeoutCode
	FlowLabel    uint32
	TrafficClass uint8
	HopLimit     uint8

	// Private is all of the private data, including the CMA header if the service wants one; up to
	// mad.REQPrivateBytes.
	Private []byte

	// Tries and RetryNs override those of the Config. With RetryNs the interval is constant;
	// otherwise it grows.
	Tries   int
	RetryNs int64

	// ListenNs is how long the request is repeated while it is refused because nothing listens; 0:
	// such a refusal ends it at once.
	ListenNs int64
}

// answerTimeout returns the time in which this side promises to answer, which is the interval at
// which the peer repeats its REP: reqLocalTimeout, or more if this connection repeats its own
// messages less often than that. A thousand connections that each ask for a repetition every 0.5 s
// would leave a slow peer no time for anything else.
func (c *Conn) answerTimeout() ib.TimeoutCode {
	t := reqLocalTimeout
	for t < reqRemoteTimeout && t.Ns() < c.retryNs {
		t++
	}
	return t
}

// Connect sends a REQ. EventReply, EventRejected or EventUnreachable reports the outcome. The error
// is a *mad.FieldError if something does not fit its field, or wraps ErrLimit.
func (a *Agent) Connect(now int64, r Request, userData any) (*Conn, error) {
	if a.conns >= a.cfg.Limits.Conns {
		return nil, fmt.Errorf("cm: %d connections: %w", a.conns, ErrLimit)
	}
	tid, err := a.random()
	if err != nil {
		return nil, err
	}
	c, err := a.newConn(r.Local, r.Remote)
	if err != nil {
		return nil, err
	}
	c.active, c.UserData = true, userData
	c.tid, c.service, c.localQPN = mad.TID(tid), r.Service, r.QPN
	c.setAckTimeout(r.AckTimeout)
	c.setRetries(r.Tries, r.RetryNs)
	req := mad.REQ{
		LocalCommID: c.localID, VendorID: r.ECE.VendorID, ServiceID: r.Service, CAGUID: a.cfg.GUID,
		QKey: r.QKey, QPN: r.QPN, ResponderResources: r.ResponderResources, InitiatorDepth: r.InitiatorDepth,
		RemoteCMTimeout: reqRemoteTimeout, LocalCMTimeout: c.answerTimeout(), MaxCMRetries: reqMaxRetries,
		Transport: r.Transport, FlowControl: r.FlowControl, StartingPSN: r.StartingPSN,
		RetryCount: r.RetryCount, RNRRetryCount: r.RNRRetryCount, SRQ: r.SRQ,
		PKey: ib.PKeyDefault, MTU: r.MTU, Private: r.Private,
		Primary: mad.Path{
			LocalLID: mad.LIDPermissive, RemoteLID: mad.LIDPermissive,
			LocalGID: ib.GIDFromAddr(c.local), RemoteGID: ib.GIDFromAddr(c.remote),
			FlowLabel: r.FlowLabel, TrafficClass: r.TrafficClass, HopLimit: r.HopLimit, AckTimeout: r.AckTimeout,
		},
	}
	if err := c.keep(mad.AttrREQ, c.tid, extended{&req, r.ECE.Options}); err != nil {
		c.remove()
		return nil, err
	}
	c.holdNs, c.listenEndNs = now+a.cfg.ReqHoldNs, listenUntil(now, r.ListenNs)
	c.setState(ReqSent)
	c.startRetries(now)
	return c, nil
}

// setRetries sets the retries of the side that asks: the wait grows each time, unless an interval
// is given.
func (c *Conn) setRetries(tries int, retryNs int64) {
	if tries > 0 {
		c.maxTries = tries
	}
	c.peerAnswerNs = reqRemoteTimeout.Ns()
	if retryNs > 0 {
		c.retryNs, c.peerAnswerNs = retryNs, 0
	}
}

// handleREP handles the answer to our REQ.
func (a *Agent) handleREP(in *message) {
	var m mad.REP
	m.Decode(in.data)
	c := a.findAnswered(in, m.RemoteCommID, m.LocalCommID)
	if c == nil || !c.active {
		// The connection is over for us, or never existed. The peer should not have to find out by
		// its timeout. (Linux does not answer.)
		a.stats.DropUnmatched++
		a.reply(in, mad.AttrREJ, &mad.REJ{
			LocalCommID: m.RemoteCommID, RemoteCommID: m.LocalCommID,
			Rejected: mad.SubjectREP, Reason: mad.RejectInvalidCommID,
		})
		return
	}
	switch c.state {
	case ReqSent, MRAReqRcvd:
		a.acceptREP(in, c, &m)
	case RepRcvd:
		a.stats.Duplicates++
		c.sendMRA(mad.SubjectREP)
	case Established, Timewait:
		a.stats.Duplicates++
		c.again() // RTU or REJ
	default:
		a.stats.Duplicates++
	}
}

func (a *Agent) acceptREP(in *message, c *Conn, m *mad.REP) {
	k := qpnKey{c.remote, m.CAGUID, uint32(m.QPN)}
	refuse := mad.RejectReason(0)
	switch {
	case m.LocalCommID == 0:
		refuse = mad.RejectInvalidCommID
	case m.QPN <= ib.QPNGSI || m.QPN >= ib.QPNMulticast:
		refuse = mad.RejectUnsupported
	case m.InitiatorDepth > maxRdAtomic:
		refuse = mad.RejectInsufficientResources
	case a.byQPN[k].holdsPeer():
		// The sender answers our REQ, so it is the peer and need not be asked. It will hardly know
		// the connection that the DREQ is about, but if it does it should end it.
		if old := a.byQPN[k]; old.state == Established {
			_ = old.sendDREQ(nil) // fails only without random numbers
			old.forgotten(in.now)
		}
		refuse = mad.RejectStaleConnection
	}
	c.remoteID, c.remoteGUID = m.LocalCommID, m.CAGUID
	if refuse != 0 {
		c.sendREJ(mad.SubjectREP, refuse, nil)
		a.emit(c, Event{Type: EventRejected, Reason: refuse})
		c.remove()
		return
	}
	c.remoteQPN = m.QPN
	c.prove()
	c.enter()
	a.stopTimer(c)
	c.out = nil
	c.setState(RepRcvd)
	rep := *m
	rep.Private = clone(m.Private)
	a.emit(c, Event{Type: EventReply, REP: &rep, ECE: in.eceOf(m.VendorID), Private: rep.Private})
}

// Ready sends the RTU: the queue pair of this side can receive and send.
func (c *Conn) Ready(now int64, private []byte) error {
	if c.state != RepRcvd {
		return &stateError{"RTU", c.state}
	}
	if err := c.keep(mad.AttrRTU, c.tid,
		&mad.RTU{LocalCommID: c.localID, RemoteCommID: c.remoteID, Private: private}); err != nil {
		return err
	}
	c.a.clock = now
	c.setState(Established)
	return nil
}
