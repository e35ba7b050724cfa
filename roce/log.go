package roce

import (
	"context"
	"log/slog"
)

// logState logs a change of state of the connection. No lock is held: a handler may take its time,
// or call the connection.
func (c *Conn) logState(level slog.Level, what string, more ...slog.Attr) {
	if c.cfg.Logger == nil {
		return
	}
	c.cfg.Logger.LogAttrs(context.Background(), level, what, append([]slog.Attr{
		slog.String("local", c.local.String()), slog.String("remote", c.remote.String()), slog.Uint64("qp",
			uint64(c.qp.Num())),
	}, more...)...)
}

// logOpen logs that the connection is established.
func (c *Conn) logOpen(how string) {
	if c.cfg.Logger != nil {
		mtu := 0
		if a, _, err := c.qp.Query(); err == nil {
			mtu = a.PathMTU.Bytes()
		}
		c.logState(slog.LevelInfo, "roce: connection "+how, slog.Int("mtu", mtu))
	}
}

// unlock releases c.mu and logs the end of the connection, unless Close caused it. Only calls and
// keep-alive probes notice the end.
func (c *Conn) unlock() {
	tell := c.flushed && !c.closed && !c.told && c.cfg.Logger != nil
	failure := c.failure
	if tell {
		c.told = true
	}
	c.mu.Unlock()
	switch {
	case !tell:
	case failure != nil:
		c.logState(slog.LevelWarn, "roce: connection failed", slog.Any("error", failure))
	default:
		c.logState(slog.LevelInfo, "roce: connection ended by the peer")
	}
}

// logState logs a change of state of the listener.
func (l *Listener) logState(level slog.Level, what string, more ...slog.Attr) {
	if l.cfg.Logger != nil {
		l.cfg.Logger.LogAttrs(context.Background(), level, what,
			append([]slog.Attr{slog.String("local", l.addr.String())}, more...)...)
	}
}
