package cm

import (
	"io"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
)

// Config is the configuration of an [Agent].
type Config struct {
	// GUID identifies this node in REQ and REP. Together with the communication ID it tells
	// duplicates from new messages, so it should change with each restart.
	GUID mad.GUID
	// Addrs are the local addresses. A REQ to any other GID is refused.
	Addrs []netip.Addr
	// MTU is the largest path MTU that a peer may ask for; 0 is 4096.
	MTU ib.MTU
	// Rand supplies communication and transaction IDs: crypto/rand.Reader in production.
	Rand io.Reader
	// Slot selects the communication IDs by which messages reach this agent; zero is all.
	Slot ib.Slot
	// Limits; zero fields mean [DefaultLimits].
	Limits Limits
	// Times; zero means the default.
	RetryNs        int64          // between the first two tries of one message
	Tries          int            // of one message
	TimewaitNs     int64          // the minimum
	ServiceTimeout ib.TimeoutCode // requested by our MRAs
	LookNs         int64          // between two questions to a peer with established connections, see look.go; 0: none
	ReqHoldNs      int64          // by how much all MRAs together may postpone the end of our REQ
}

func (c *Config) setDefaults() {
	d := &DefaultLimits
	for _, f := range []struct {
		p   *int
		def int
	}{
		{&c.Limits.Conns, d.Conns}, {&c.Limits.HalfOpen, d.HalfOpen},
		{&c.Limits.HalfOpenBytes, d.HalfOpenBytes}, {&c.Limits.PerPeer, d.PerPeer},
		{&c.Limits.Timewait, d.Timewait}, {&c.Limits.Backlog, d.Backlog}, {&c.Limits.TxBacklog, d.TxBacklog},
		{&c.Tries, DefaultTries},
	} {
		if *f.p <= 0 {
			*f.p = f.def
		}
	}
	// The connections of one peer must not push each other out: what exceeds its share is not
	// admitted, and asks again later.
	c.Limits.PerPeer = min(c.Limits.PerPeer, max(c.Limits.HalfOpen/2, 1))
	if c.RetryNs <= 0 {
		c.RetryNs = DefaultRetryNs
	}
	if c.TimewaitNs <= 0 {
		c.TimewaitNs = DefaultTimewaitNs
	}
	if c.ServiceTimeout == 0 || !c.ServiceTimeout.Valid() {
		c.ServiceTimeout = DefaultServiceTimeout
	}
	if c.ReqHoldNs <= 0 {
		c.ReqHoldNs = maxServiceTimeout.Ns()
	}
	if !c.MTU.Valid() {
		c.MTU = ib.MTU4096
	}
}
