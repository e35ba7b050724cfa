package roce

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// Defaults of connections made by [Dial] and [Listen].
const (
	DefaultRecvDepth = 32          // messages that can wait for Recv
	DefaultRecvBytes = 8 << 10     // longest message that Recv takes
	DefaultSendDepth = 128         // operations in progress
	DefaultBacklog   = 128         // connections that wait for Accept
	DefaultSilence   = time.Minute // ConnConfig.SilenceTimeout
	connInline       = 256         // bytes up to which Send needs no buffer
)

// Limits of connections made by [Dial] and [Listen].
const (
	MaxConnDepth = 1 << 18          // RecvDepth, SendDepth
	MaxRecvBytes = verbs.MaxPoolBuf // RecvBytes: 1 MiB
	MaxBacklog   = 1<<16 - 1        // Backlog of a listener
	// MaxConnRecvBytes bounds RecvDepth times RecvBytes, which is what a
	// connection holds for messages: 1 GiB.
	MaxConnRecvBytes = 1 << 30
)

// ConnConfig is what a service chooses about its connections, and what [Dialer] and
// [ListenConfig] have in common. The zero value is what [Dial] and [Listen] use. What
// the two sides negotiate is in Param; few services need that.
type ConnConfig struct {
	// Device is what the connections are made on. Nil is one that the process
	// opens for the local address and keeps (see [DefaultDevice]).
	Device *verbs.Device
	// PD is the protection domain of the connections. Nil gives each connection
	// its own, so that a key given to one peer is of no use to another. With a PD
	// of the application, memory can be registered once for many connections.
	PD *verbs.PD

	RecvDepth int // messages that can wait for Recv, up to MaxConnDepth; 0 is DefaultRecvDepth
	RecvBytes int // longest message that Recv takes, up to MaxRecvBytes; 0 is DefaultRecvBytes
	SendDepth int // operations in progress, up to MaxConnDepth; 0 is DefaultSendDepth

	// KeepAlive is the time between probes of a connection that sends nothing, which find a peer
	// that has vanished; 0 is DefaultKeepAlive, and negative sends none. The peer's adapter answers
	// them, so that an idle peer need not be one of ours.
	KeepAlive time.Duration

	// SilenceTimeout is how long the connection outlasts a peer that does not answer, while
	// something is on its way: a process that was stopped, a machine that migrates, a link that is
	// down. Then what is on its way fails with ErrUnreachable. 0 is DefaultSilence; the longest is
	// a day; negative leaves it to Param: 2.2 s with the default of 7 retries. It is what
	// TCP_USER_TIMEOUT is for TCP, where the default is a quarter of an hour.
	SilenceTimeout time.Duration

	// Logger, if set, is told when a connection or a listener begins and ends, and why. Nothing is
	// logged for messages or packets. It must not call the listener. For the device there is
	// verbs.Config.Logger.
	Logger *slog.Logger

	// Param is what else is negotiated; nil is DefaultConnParam. PrivateData is
	// what the peer finds with Conn.PrivateData.
	Param *rdmacm.ConnParam
}

func (c *ConnConfig) withDefaults() ConnConfig {
	d := *c
	for _, f := range []struct {
		p   *int
		def int
	}{{&d.RecvDepth, DefaultRecvDepth}, {&d.RecvBytes, DefaultRecvBytes}, {&d.SendDepth, DefaultSendDepth}} {
		if *f.p == 0 {
			*f.p = f.def
		}
	}
	if d.KeepAlive == 0 {
		d.KeepAlive = DefaultKeepAlive
	}
	if d.SilenceTimeout == 0 {
		d.SilenceTimeout = DefaultSilence
	}
	return d
}

// check returns an error that names the field which is out of its limits.
func (c *ConnConfig) check(op string) error {
	d := c.withDefaults()
	for _, f := range []struct {
		arg   string
		v     int
		limit int
	}{
		{"RecvDepth", d.RecvDepth, MaxConnDepth}, {"RecvBytes", d.RecvBytes, MaxRecvBytes},
		{"SendDepth", d.SendDepth, MaxConnDepth},
	} {
		if f.v < 0 || f.v > f.limit {
			return argError(op, f.arg, fmt.Sprintf("%d is not in 0..%d", f.v, f.limit))
		}
	}
	if n := int64(d.RecvDepth) * int64(d.RecvBytes); n > MaxConnRecvBytes {
		return argError(op, "RecvDepth", fmt.Sprintf("%d times RecvBytes %d is %d bytes, at most %d", d.RecvDepth, d.RecvBytes, n, MaxConnRecvBytes))
	}
	if d.SilenceTimeout > rdmacm.MaxSilenceTimeout {
		return argError(op, "SilenceTimeout", fmt.Sprintf("%v, at most %v", d.SilenceTimeout, rdmacm.MaxSilenceTimeout))
	}
	return c.Param.Check(op)
}

// connBytes is what a connection holds besides its receive buffers, about, and with
// the default depths.
const connBytes = 32 << 10

// memory returns what a connection holds when it is accepted, in bytes.
func (c *ConnConfig) memory() int {
	d := c.withDefaults()
	return connBytes + d.RecvDepth*d.RecvBytes
}
