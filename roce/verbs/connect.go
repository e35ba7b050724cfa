package verbs

import (
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/internal/access"
)

// RemoteInfo names a queue pair and its address: what each side must know of the other before
// [QP.Connect]. The application exchanges it by its own means, usually a TCP connection. Package
// rdmacm has a protocol for that and needs no RemoteInfo.
type RemoteInfo struct {
	QPN ib.QPN // of the remote queue pair
	PSN ib.PSN // the first PSN that the remote side sends
	GID ib.GID // the remote address
}

// ConnAttr has the attributes of a connection that [QP.Connect] makes: each side's own choices, and
// numbers that both have agreed on by other means. rdmacm.ConnParam has what the two sides
// negotiate, from which package rdmacm makes a ConnAttr; roce.ConnConfig has the options of a
// service.
//
// Numbers mean what they say: 0 retries are none. Start from [DefaultConnAttr].
type ConnAttr struct {
	Access    Access // what the peer may do
	SGIDIndex int    // the local address, an index of [Device.GIDs]; -1 selects one that fits the peer's

	MTU      ib.MTU         // path MTU, which must be the same on both sides; 0 is the port's
	Timeout  ib.TimeoutCode // the ACK timeout, 4.096 us x 2^Timeout; 0 is none
	RetryCnt uint8          // retries when no ACK comes, 0 to 7
	// SilenceTimeout is how long a silent peer is asked for an answer: after RetryCnt retries more
	// follow, at most a second apart, until it has passed. 0 means RetryCnt alone decides, as in
	// verbs. Not part of verbs.
	SilenceTimeout time.Duration
	RNRRetry       uint8      // retries when the peer has no receive posted: 0 to 6; 7 is for ever
	MinRNRTimer    ib.RNRCode // how long the peer waits when this side has no receive posted; code 0 is 655 ms

	// READs and atomics at a time, to the peer and from it, up to [DeviceAttr.MaxQPRdAtomic]. The
	// other side's value bounds each. 16 suits all hardware; more makes small READs faster between
	// devices that allow it, and lets others fill a long path.
	MaxRdAtomic     uint8
	MaxDestRdAtomic uint8

	TrafficClass uint8  // of the IP header: DSCP and ECN
	FlowLabel    uint32 // 20 bits; selects the UDP source port; 0 lets the device choose
	HopLimit     uint8  // of the IP header; 0 is 64

	PSN    ib.PSN // the first PSN to send, if SetPSN; otherwise the one in LocalInfo
	SetPSN bool
}

// DefaultConnAttr returns the attributes that Connect uses by default: the peer may do everything,
// ACK timeout code 14 (67 ms), 7 retries, RNR retries for ever with a timer of 0.64 ms, 16 READs
// and atomics in each direction.
func DefaultConnAttr() ConnAttr {
	return ConnAttr{
		Access:    LocalWrite | RemoteWrite | RemoteRead | RemoteAtomic | FlushGlobal,
		SGIDIndex: -1,
		Timeout:   defaultTimeout, RetryCnt: defaultRetry, RNRRetry: defaultRNRRetry,
		MinRNRTimer: defaultMinRNRTimer,
		MaxRdAtomic: defaultRdAtomic, MaxDestRdAtomic: defaultRdAtomic,
		HopLimit: defaultHopLimit,
	}
}

// LocalInfo returns what the peer needs to connect to this queue pair, with the local address of
// index gidIndex.
func (qp *QP) LocalInfo(gidIndex int) RemoteInfo {
	info := RemoteInfo{QPN: qp.num, PSN: qp.psn}
	if qp.d != nil && gidIndex >= 0 && gidIndex < len(qp.d.s.Addrs()) {
		info.GID = ib.GIDFromAddr(qp.d.s.Addrs()[gidIndex])
	}
	return info
}

// SetPSN replaces the random first PSN to send. Call it before you send LocalInfo to the peer.
func (qp *QP) SetPSN(p ib.PSN) { qp.psn = p & ib.PSNMask }

// ToInit moves an RC or UC queue pair from RESET to INIT. From then on receives can be posted.
func (qp *QP) ToInit(access Access) error {
	return qp.Modify(QPAttr{State: StateInit, Access: access, PortNum: 1},
		AttrState|AttrPKeyIndex|AttrPort|AttrAccess)
}

// ToInitUD moves a UD queue pair from RESET to INIT.
func (qp *QP) ToInitUD(qkey ib.QKey) error {
	return qp.Modify(QPAttr{State: StateInit, QKey: qkey, PortNum: 1},
		AttrState|AttrPKeyIndex|AttrPort|AttrQKey)
}

// ToRTR moves the queue pair from INIT to RTR, in which it receives from the peer.
func (qp *QP) ToRTR(remote RemoteInfo, c ConnAttr) error {
	a, mask, err := qp.rtrAttr(remote, c)
	if err != nil {
		return err
	}
	return qp.Modify(a, mask)
}

// rtrAttr returns the attributes that ToRTR sets.
func (qp *QP) rtrAttr(remote RemoteInfo, c ConnAttr) (QPAttr, AttrMask, error) {
	if qp.d.unmade() {
		return QPAttr{}, 0, access.ErrZero
	}
	if qp.typ == UD {
		return QPAttr{State: StateRTR}, AttrState, nil
	}
	sgid := c.SGIDIndex
	if sgid < 0 {
		var err error
		if sgid, err = qp.d.GIDIndexFor(remote.GID); err != nil {
			return QPAttr{}, 0, err
		}
	}
	mtu := c.MTU
	if mtu == 0 {
		mtu = qp.s.ActiveMTU()
	}
	hops := c.HopLimit
	if hops == 0 {
		hops = defaultHopLimit
	}
	a := QPAttr{
		State: StateRTR,
		AV: AddressVector{
			DGID: remote.GID, SGIDIndex: sgid, FlowLabel: c.FlowLabel, TrafficClass: c.TrafficClass, HopLimit: hops,
		},
		PathMTU: mtu, DestQPN: remote.QPN, RQPSN: remote.PSN,
		MaxDestRdAtomic: c.MaxDestRdAtomic, MinRNRTimer: c.MinRNRTimer,
	}
	mask := AttrState | AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN
	if qp.typ == RC {
		mask |= AttrMaxDestRdAtomic | AttrMinRNRTimer
	}
	return a, mask, nil
}

// ToRTS moves the queue pair from RTR to RTS, in which it sends.
func (qp *QP) ToRTS(c ConnAttr) error {
	return qp.Modify(qp.rtsAttr(c))
}

// rtsAttr returns the attributes that ToRTS sets.
func (qp *QP) rtsAttr(c ConnAttr) (QPAttr, AttrMask) {
	a := QPAttr{
		State: StateRTS, SQPSN: qp.psn,
		Timeout: c.Timeout, RetryCnt: c.RetryCnt, RNRRetry: c.RNRRetry, MaxRdAtomic: c.MaxRdAtomic,
		SilenceTimeout: c.SilenceTimeout,
	}
	if c.SetPSN {
		a.SQPSN = c.PSN
	}
	mask := AttrState | AttrSQPSN
	if qp.typ == RC {
		mask |= AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrMaxRdAtomic | AttrSilence
	}
	return a, mask
}

// Connect moves an RC or UC queue pair from RESET or INIT to RTS, connected to a peer that must do
// the same with this side's [QP.LocalInfo]. A nil attr means [DefaultConnAttr].
func (qp *QP) Connect(remote RemoteInfo, attr *ConnAttr) error {
	c := DefaultConnAttr()
	if attr != nil {
		c = *attr
	}
	if qp.typ != RC && qp.typ != UC {
		return argError("connect", "QP", "is "+qp.typ.String()+", which has no connections")
	}
	if qp.State() == StateReset {
		if err := qp.ToInit(c.Access); err != nil {
			return err
		}
	}
	if err := qp.ToRTR(remote, c); err != nil {
		return err
	}
	return qp.ToRTS(c)
}

// Activate moves a UD queue pair from RESET or INIT to RTS.
func (qp *QP) Activate(qkey ib.QKey) error {
	if qp.State() == StateReset {
		if err := qp.ToInitUD(qkey); err != nil {
			return err
		}
	}
	if err := qp.ToRTR(RemoteInfo{}, ConnAttr{}); err != nil {
		return err
	}
	return qp.ToRTS(ConnAttr{})
}
