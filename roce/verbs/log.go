package verbs

import (
	"context"
	"log/slog"

	"github.com/goroce/goroce/roce/link"
)

// logState logs a change of state. No lock is held.
func (d *Device) logState(level slog.Level, what string, more ...slog.Attr) {
	if d.logger == nil {
		return
	}
	d.logger.LogAttrs(context.Background(), level, what,
		append([]slog.Attr{slog.Any("addrs", d.s.Addrs())}, more...)...)
}

// logPort logs a change of the interfaces under the link.
func (o *owner) logPort(before, now *link.PortState) {
	switch was, is := o.s.MTUOf(before), o.s.MTUOf(now); {
	case before.Up && !now.Up:
		o.d.logState(slog.LevelWarn, "roce: port down")
	case now.Up && !before.Up:
		o.d.logState(slog.LevelInfo, "roce: port up", slog.Int("mtu", is.Bytes()))
	case was != is:
		o.d.logState(slog.LevelInfo, "roce: port MTU changed", slog.Int("was", was.Bytes()),
			slog.Int("mtu", is.Bytes()))
	}
}
