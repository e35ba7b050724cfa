package rsocket_test

import (
	"errors"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/packet"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/roce/link/xdp"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/rsocket"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
)

// may are the options for which negative, or huge, has a meaning, which their comments give.
var may = map[string]string{
	"Spin": "negative", "MemLimits.Quarantine": "negative", "Tuning.LossProbe": "negative", "Tuning.CNPGap": "negative",
	"Tuning.Congestion.Burst": "negative", "Tuning.Congestion.LineRate": "huge", "Tuning.Congestion.StartRate": "huge",
	"KeepAlive": "negative huge", "ConnConfig.KeepAlive": "negative huge", "SilenceTimeout": "negative",
	"ConnConfig.SilenceTimeout": "negative", "MaxConns": "huge", "Config.KeepAlive": "negative huge",
	"Config.SilenceTimeout": "negative", "Config.Linger": "negative huge",
	"Linger": "negative huge",
	// As with listen(2), more than there can be is as many as there can be.
	"rdmacm.ListenLimits.Backlog": "huge", "rdmacm.ListenLimits.MaxUntaken": "huge",
}

// Every number and every time in an option that cannot be is refused, by an error that names it:
// negative, 2^40, and the most that the type holds. A field that is new is found here.
func TestOptionsThatCannotBe(t *testing.T) {
	addr := rocetest.Loopback4()
	d := rocetest.OpenDevice(t, verbs.Config{Shards: 1})
	at, nobody := netip.AddrPortFrom(d.Addrs()[0], 0), netip.AddrPortFrom(rocetest.Loopback4(), 1)
	closing := func(c interface{ Close() error }, err error) error {
		if err == nil {
			err = c.Close()
		}
		return err
	}
	try := map[string]func(options any) error{
		"verbs.Config": func(o any) error {
			c := *o.(*verbs.Config)
			c.Addrs = []netip.Addr{addr}
			return closing(verbs.Open(c))
		},
		"udp.Options":    func(o any) error { return closing(udp.Open([]netip.Addr{addr}, *o.(*udp.Options))) },
		"packet.Options": func(o any) error { return closing(packet.Open(*o.(*packet.Options))) },
		"xdp.Options":    func(o any) error { return closing(xdp.Open(*o.(*xdp.Options))) },
		"roce.ListenConfig": func(o any) error {
			c := *o.(*roce.ListenConfig)
			c.Device = d
			return closing(c.ListenAddr(at))
		},
		"roce.Dialer": func(o any) error {
			c := *o.(*roce.Dialer)
			c.Device = d
			return closing(c.DialAddr(t.Context(), nobody))
		},
		"rsocket.Config": func(o any) error {
			return closing((&rsocket.ListenConfig{Device: d, Config: *o.(*rsocket.Config)}).ListenAddr(at))
		},
		"rsocket.ListenConfig": func(o any) error {
			c := *o.(*rsocket.ListenConfig)
			c.Device = d
			return closing(c.ListenAddr(at))
		},
		"rsocket.Dialer": func(o any) error {
			c := *o.(*rsocket.Dialer)
			c.Device = d
			return closing(c.DialAddr(t.Context(), nobody))
		},
		"rdmacm.ListenLimits": func(o any) error {
			ch, err := rdmacm.CreateEventChannel(d)
			require.NoError(t, err)
			defer ch.Close()
			id, err := rdmacm.CreateID(ch, rdmacm.PortSpaceTCP)
			require.NoError(t, err)
			defer id.Close()
			require.NoError(t, id.BindAddr(at))
			return id.Listen(*o.(*rdmacm.ListenLimits))
		},
	}
	for _, options := range []any{
		&verbs.Config{}, &udp.Options{}, &packet.Options{}, &xdp.Options{}, &roce.ListenConfig{}, &roce.Dialer{},
		&rsocket.Config{}, &rsocket.ListenConfig{}, &rsocket.Dialer{}, &rdmacm.ListenLimits{},
	} {
		v := reflect.ValueOf(options).Elem()
		name := v.Type().String()
		numbers(v, "", func(field string, f reflect.Value) {
			for _, n := range []int64{-3, 1 << 40, math.MaxInt64} {
				what := "huge"
				if n < 0 {
					what = "negative"
				}
				if f.Type() == reflect.TypeFor[time.Duration]() && n == 1<<40 {
					continue // 18 minutes
				}
				if strings.Contains(may[field]+may[name+"."+field], what) {
					continue
				}
				if f.OverflowInt(n) {
					n = math.MaxInt32 // what a 32-bit processor has
				}
				f.SetInt(n)
				err := try[name](options)
				f.SetInt(0)
				var here *verbs.ArgError
				var below *transport.ArgError
				arg := ""
				switch {
				case errors.As(err, &here):
					arg = here.Arg
				case errors.As(err, &below):
					arg = below.Arg
				}
				last := field[strings.LastIndex(field, ".")+1:]
				if !strings.Contains(strings.ToLower(last), strings.ToLower(arg[strings.LastIndex(arg, ".")+1:])) &&
					arg != "Tuning.Congestion" || arg == "" {
					t.Errorf("%s.%s of %d: %v", name, field, n, err)
				}
			}
		})
	}
}

// numbers calls f for each number in options, which may be in others.
func numbers(v reflect.Value, path string, f func(field string, v reflect.Value)) {
	for i := range v.NumField() {
		field, what := v.Field(i), v.Type().Field(i)
		if !what.IsExported() {
			continue
		}
		name := what.Name
		if path != "" {
			name = path + "." + name
		}
		switch field.Kind() {
		case reflect.Int, reflect.Int32, reflect.Int64:
			f(name, field)
		case reflect.Struct:
			if strings.HasPrefix(what.Type.PkgPath(), "github.com/goroce") {
				numbers(field, name, f)
			}
		}
	}
}
