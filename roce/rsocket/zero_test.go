package rsocket

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"net"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// exportedTypes returns the names of the exported types of the package.
func exportedTypes(t *testing.T) (names []string) {
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.TypeSpec); ok && s.Name.IsExported() {
				names = append(names, s.Name.Name)
			}
			_, inside := n.(*ast.FuncDecl)
			return !inside
		})
	}
	return names
}

// No method of an exported type panics or hangs on the zero value or, where the type is used
// through a pointer, on nil. Those that can fail say so, as in package net.
func TestZeroValues(t *testing.T) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	values := map[string][]any{
		"Conn":          {&Conn{}, (*Conn)(nil)},
		"Listener":      {&Listener{}, (*Listener)(nil)},
		"Mapping":       {&Mapping{}, (*Mapping)(nil)},
		"Dialer":        {&Dialer{}, (*Dialer)(nil)},
		"ListenConfig":  {&ListenConfig{}, (*ListenConfig)(nil)},
		"Config":        {&Config{}, (*Config)(nil)},
		"LingerStats":   {&LingerStats{}, (*LingerStats)(nil)},
		"BufferStats":   {&BufferStats{}, (*BufferStats)(nil)},
		"Addr":          {&Addr{}},
		"LostError":     {&LostError{}, (*LostError)(nil)},
		"ProtocolError": {&ProtocolError{}, (*ProtocolError)(nil)},
		"PacketConn":    {&PacketConn{}, (*PacketConn)(nil)},
		"PacketConfig":  {&PacketConfig{}, (*PacketConfig)(nil)},
		"PacketStats":   {&PacketStats{}, (*PacketStats)(nil)},
	}
	arguments := map[reflect.Type][]any{
		reflect.TypeFor[context.Context](): {over, nil},
		reflect.TypeFor[[]byte]():          {make([]byte, 10), []byte(nil)},
		reflect.TypeFor[time.Time]():       {time.Now(), time.Time{}},
		reflect.TypeFor[string]():          {"", "tcp", "127.0.0.1:1"},
		reflect.TypeFor[*verbs.Device]():   {closedDevice(t)},
		reflect.TypeFor[netip.AddrPort]():  {netip.MustParseAddrPort("192.0.2.1:1")}, // not of this host
	}
	mayFail := reflect.TypeFor[error]()
	for _, name := range exportedTypes(t) {
		require.Contains(t, values, name, "an exported type without zero values to try")
		for _, v := range values[name] {
			rv := reflect.ValueOf(v)
			for i := range rv.NumMethod() {
				m := rv.Type().Method(i)
				for round := range 3 {
					in := make([]reflect.Value, rv.Method(i).Type().NumIn())
					for k := range in {
						in[k] = reflect.Zero(rv.Method(i).Type().In(k))
						if a := arguments[in[k].Type()]; len(a) > 0 && a[round%len(a)] != nil {
							in[k] = reflect.ValueOf(a[round%len(a)])
						}
					}
					var out []reflect.Value
					require.NotPanics(t, func() { out = rv.Method(i).Call(in) }, "%T.%s, nil %v", v, m.Name, rv.IsNil())
					if name == "Addr" || len(out) == 0 || out[len(out)-1].Type() != mayFail {
						continue
					}
					err, _ := out[len(out)-1].Interface().(error)
					if m.Name == "Close" { // there is nothing to end
						require.NoError(t, err, "%T.%s", v, m.Name)
						continue
					}
					require.Error(t, err, "%T.%s", v, m.Name)
					if name == "Conn" || name == "Listener" || name == "Mapping" || name == "PacketConn" {
						require.ErrorIs(t, err, syscall.EINVAL, "%T.%s", v, m.Name)
					}
				}
			}
		}
	}
}

func closedDevice(t *testing.T) *verbs.Device {
	d := openDevice(t, verbs.Config{})
	require.NoError(t, d.Close())
	return d
}

// The same for functions.
func TestZeroArguments(t *testing.T) {
	closed := closedDevice(t)
	ctx := testContext(t)
	//lint:ignore SA1012 that is the test
	_, err := (&Dialer{Device: closed}).DialAddr(nil, netip.AddrPort{})
	require.ErrorIs(t, err, roce.ErrInvalidAttr)
	_, err = (&Dialer{Device: closed}).DialAddr(ctx, netip.AddrPort{})
	require.ErrorIs(t, err, roce.ErrInvalidAttr)
	_, err = (&Dialer{Device: closed}).DialAddr(ctx, netip.MustParseAddrPort("127.0.0.1:1"))
	requireOp(t, err, "dial", net.ErrClosed)
	_, err = (&ListenConfig{Device: closed}).ListenAddr(netip.AddrPort{})
	requireOp(t, err, "listen", net.ErrClosed)
	require.Zero(t, Lingering(nil))
	require.Zero(t, Lingering(closed))
	require.Zero(t, Buffers(nil))
	require.Zero(t, Buffers(closed))
}

// A Dialer and a ListenConfig without a device use the one that the process has for the
// address, as those of package roce.
func TestDefaultDevice(t *testing.T) {
	host := rocetest.Loopback4()
	l, err := (&ListenConfig{}).ListenAddr(netip.AddrPortFrom(host, 0))
	require.NoError(t, err)
	d, err := roce.DefaultDevice(host)
	require.NoError(t, err)
	defer d.Close()
	at := l.Addr().(Addr).AddrPort
	for _, dialer := range []*Dialer{{LocalAddr: netip.AddrPortFrom(host, 0)}, {Device: d}} {
		c, err := dialer.DialContext(testContext(t), "tcp", at.String())
		require.NoError(t, err)
		require.Same(t, d, c.(*Conn).dev)
		s, err := l.AcceptConn()
		require.NoError(t, err)
		require.Same(t, d, s.dev)
		require.NoError(t, c.Close())
		require.NoError(t, s.Close())
	}
	require.NoError(t, l.Close())
}

// What is out of bounds is refused, by name and with the bound.
func TestArguments(t *testing.T) {
	n := &network{a: openDevice(t, verbs.Config{}), b: closedDevice(t)}
	at := netip.AddrPortFrom(n.a.Addrs()[0], 0)
	for want, lc := range map[string]ListenConfig{
		"SendBuffer: -1 is not from 0 to 1073741824":         {Config: Config{SendBuffer: -1}},
		"SendBuffer: 1073741825 is not from 0 to 1073741824": {Config: Config{SendBuffer: 1<<30 + 1}},
		"RecvBuffer: 2147483647 is not from 0 to 1073741824": {Config: Config{RecvBuffer: 1<<31 - 1}},
		"SendQueue: 65535 is not from 0 to 65534":            {Config: Config{SendQueue: 65535}},
		"RecvQueue: -5 is not from 0 to 65534":               {Config: Config{RecvQueue: -5}},
		"IOMaps: 32513 is not from 0 to 32512":               {Config: Config{IOMaps: 32513}},
		"Backlog: -1 is not from 0 to 65535":                 {Backlog: -1},
		"Backlog: 65536 is not from 0 to 65535":              {Backlog: 65536},
	} {
		lc.Device = n.a
		_, err := lc.ListenAddr(at)
		requireOp(t, err, "listen", roce.ErrInvalidAttr)
		require.ErrorContains(t, err, want)
		if lc.Backlog != 0 {
			continue
		}
		_, err = (&Dialer{Device: n.a, Config: lc.Config}).DialAddr(testContext(t), netip.AddrPortFrom(at.Addr(), 1))
		requireOp(t, err, "dial", roce.ErrInvalidAttr)
		require.ErrorContains(t, err, want)
	}
	// The least and the most are no error.
	for _, cfg := range []Config{{SendBuffer: 1, RecvBuffer: 1, SendQueue: 1, RecvQueue: 1, IOMaps: 1},
		{IOMaps: maxIOMaps, SendQueue: maxQueue, RecvQueue: maxQueue}} {
		l, err := (&ListenConfig{Device: n.a, Config: cfg, Backlog: maxBacklog}).ListenAddr(at)
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}
