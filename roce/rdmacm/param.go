package rdmacm

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/rdmacm/cm"
	"github.com/goroce/goroce/roce/verbs"
)

// ConnParam has the parameters that one side sends the other when it requests or accepts a
// connection (rdma_conn_param). From those of both sides the ID makes the verbs.ConnAttr of its
// queue pair. (roce.ConnConfig has a service's own options, and contains a ConnParam.)
//
// Numbers mean what they say: 0 retries are none. Start from [DefaultConnParam].
type ConnParam struct {
	PrivateData []byte // see MaxConnectPrivate and its neighbours

	// ResponderResources is how many READs and atomics of the peer this side serves at a time;
	// InitiatorDepth how many it has in flight itself. A peer may ask for up to 255; Accept and
	// Connect lower both to a device's limit of 128, and Accept to the peer's limit.
	ResponderResources uint8
	InitiatorDepth     uint8

	FlowControl   bool
	RetryCount    uint8 // 0 to 7; Accept uses the peer's
	RNRRetryCount uint8 // 0 to 7; 7 is for ever: how often the peer tries again when this side has no receive posted
	SRQ           bool  // for an ID without a queue pair

	// For an ID without a queue pair: what the peer is told.
	QPN         ib.QPN
	QKey        ib.QKey
	StartingPSN ib.PSN // first PSN expected from the peer
	UC          bool   // the queue pair is UC; of Connect

	// ECE is the enhanced connection establishment data to send. This stack has none of its own.
	ECE ECE

	// Parameters that librdmacm lacks; 0 is the default.

	AckTimeout ib.TimeoutCode // of both ends, proposed by Connect: 16, 268 ms
	// Of a peer that finds no receive posted here: 0.64 ms if it tries for ever, else 0, 655 ms.
	MinRNRTimer ib.RNRCode
	MTU         ib.MTU // path MTU, proposed by Connect: the port's
	// Access is what the peer may do; 0 is WRITE, plus READ, atomics and FLUSH of either kind if
	// there are ResponderResources.
	Access verbs.Access
	// ListenWait is how long Connect asks again while nothing listens at the peer, before
	// EventRejected; use it for a server that is about to listen. 0: EventRejected comes at once.
	ListenWait time.Duration
}

// DefaultConnParam returns what Connect and Accept use for nil: 16 READs and atomics in each
// direction, 7 retries, RNR retries for ever, flow control.
func DefaultConnParam() ConnParam {
	return ConnParam{
		ResponderResources: cmRdAtomic, InitiatorDepth: cmRdAtomic, FlowControl: true,
		RetryCount: defaultRetry, RNRRetryCount: defaultRNRRetry,
	}
}

// withDefaults fills in fields that librdmacm lacks and that are 0, and applies the device's
// bounds.
func (p *ConnParam) withDefaults(s *shard.Shard) ConnParam {
	if p == nil {
		def := DefaultConnParam()
		p = &def
	}
	q := *p
	q.ResponderResources = min(q.ResponderResources, maxRdAtomic)
	q.InitiatorDepth = min(q.InitiatorDepth, maxRdAtomic)
	if q.AckTimeout == 0 {
		q.AckTimeout = defaultCMTimeout
	}
	if q.MinRNRTimer == 0 && q.RNRRetryCount == defaultRNRRetry {
		q.MinRNRTimer = defaultMinRNRTimer
	}
	if mtu := s.ActiveMTU(); q.MTU == 0 || q.MTU > mtu {
		q.MTU = mtu
	}
	return q
}

// Check returns an error that names the first field out of range for the messages or the queue
// pair. op is the call that it names.
func (p *ConnParam) Check(op string) error {
	if p == nil {
		return nil
	}
	for _, f := range []struct {
		arg      string
		v, limit uint32
	}{
		{"RetryCount", uint32(p.RetryCount), 7}, {"RNRRetryCount", uint32(p.RNRRetryCount), 7},
		{"AckTimeout", uint32(p.AckTimeout), 31}, {"MinRNRTimer", uint32(p.MinRNRTimer), 31},
		{"ECE.VendorID", p.ECE.VendorID, 1<<24 - 1}, {"QPN", uint32(p.QPN), uint32(ib.QPNMask)},
		{"StartingPSN", uint32(p.StartingPSN), uint32(ib.PSNMask)},
	} {
		if f.v > f.limit {
			return argError(op, f.arg, fmt.Sprintf("%d is not in 0..%d", f.v, f.limit))
		}
	}
	if p.ListenWait < 0 {
		return argError(op, "ListenWait", p.ListenWait.String()+" is less than nothing")
	}
	if p.MTU != 0 && !p.MTU.Valid() {
		return argError(op, "MTU", p.MTU.String()+" is none")
	}
	return nil
}

// access returns the rights of the queue pair.
func (p *ConnParam) access() verbs.Access {
	if p.Access != 0 {
		return p.Access
	}
	a := verbs.LocalWrite | verbs.RemoteWrite
	if p.ResponderResources > 0 {
		a |= verbs.RemoteRead | verbs.RemoteAtomic | verbs.FlushGlobal | verbs.FlushPersistent
	}
	return a
}

// ECE is one side's enhanced connection establishment data (ibv_ece).
type ECE = cm.ECE

// paramOfREQ returns the content of a REQ, from the receiver's point of view.
func paramOfREQ(m *mad.REQ, ece ECE, private []byte) ConnParam {
	return ConnParam{
		PrivateData:        private,
		ResponderResources: m.InitiatorDepth, InitiatorDepth: m.ResponderResources,
		FlowControl: m.FlowControl, RetryCount: m.RetryCount, RNRRetryCount: m.RNRRetryCount, SRQ: m.SRQ,
		QPN: m.QPN, QKey: m.QKey, StartingPSN: m.StartingPSN, UC: m.Transport == mad.TransportUC, ECE: ece,
		AckTimeout: m.Primary.AckTimeout, MTU: m.MTU,
	}
}

// paramOfREP returns the content of a REP, from the receiver's point of view.
func paramOfREP(m *mad.REP, ece ECE) ConnParam {
	return ConnParam{
		PrivateData:        m.Private,
		ResponderResources: m.InitiatorDepth, InitiatorDepth: m.ResponderResources,
		FlowControl: m.FlowControl, RetryCount: defaultRetry, RNRRetryCount: m.RNRRetryCount, SRQ: m.SRQ,
		QPN: m.QPN, QKey: m.QKey, StartingPSN: m.StartingPSN, ECE: ece,
	}
}

func random64(s *shard.Shard) (uint64, error) {
	var b [8]byte
	if _, err := io.ReadFull(s.Rand(), b[:]); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(b[:]), nil
}
