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
	// MaxConnRecvBytes bounds RecvDepth times RecvBytes, the memory that a connection holds for
	// messages: 1 GiB.
	MaxConnRecvBytes = 1 << 30
)

// ConnConfig holds the options of a connection that a service chooses by itself; [Dialer] and
// [ListenConfig] share them. The zero value is what [Dial] and [Listen] use. Param has what the two
// sides negotiate; few services need it.
type ConnConfig struct {
	// Device carries the connections. If it is nil, the process opens one for the local address and
	// keeps it (see [DefaultDevice]).
	Device *verbs.Device
	// PD is the protection domain of the connections. If it is nil, each connection has its own, so
	// that a key given to one peer is of no use to another. With a PD of the application, memory
	// can be registered once for many connections.
	PD *verbs.PD

	RecvDepth int // messages that can wait for Recv, up to MaxConnDepth; 0 is DefaultRecvDepth
	RecvBytes int // longest message that Recv takes, up to MaxRecvBytes; 0 is DefaultRecvBytes
	SendDepth int // operations in progress, up to MaxConnDepth; 0 is DefaultSendDepth

	// KeepAlive is the time between probes of an idle connection, which find a peer that has
	// vanished; 0 is DefaultKeepAlive, and negative sends none. The peer's adapter answers the
	// probes, so the peer need not use this package.
	KeepAlive time.Duration

	// SilenceTimeout is how long the connection outlasts a silent peer while requests are
	// outstanding: a process that was stopped, a machine that migrates, a link that is down. After
	// that the requests fail with ErrUnreachable. 0 is DefaultSilence; the longest is a day;
	// negative leaves it to Param: 2.2 s with the default of 7 retries. It corresponds to
	// TCP_USER_TIMEOUT; TCP's default is a quarter of an hour.
	SilenceTimeout time.Duration

	// Logger, if set, records when a connection or a listener begins and ends, and why. Messages
	// and packets are not logged. It must not call the listener. verbs.Config.Logger logs for the
	// device.
	Logger *slog.Logger

	// Param has the other negotiated parameters; nil is DefaultConnParam. Its PrivateData is what
	// the peer's Conn.PrivateData returns.
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

// check returns an error that names the first field out of range.
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
		return argError(op, "RecvDepth",
			fmt.Sprintf("%d times RecvBytes %d is %d bytes, at most %d", d.RecvDepth, d.RecvBytes, n, MaxConnRecvBytes))
	}
	if d.SilenceTimeout > rdmacm.MaxSilenceTimeout {
		return argError(op, "SilenceTimeout", fmt.Sprintf("%v, at most %v", d.SilenceTimeout, rdmacm.MaxSilenceTimeout))
	}
	return c.Param.Check(op)
}

// connBytes is roughly what a connection with the default depths holds besides its receive buffers.
const connBytes = 32 << 10

// memory returns the bytes that a connection holds once it is accepted.
func (c *ConnConfig) memory() int {
	d := c.withDefaults()
	return connBytes + d.RecvDepth*d.RecvBytes
}
