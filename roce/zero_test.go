package roce

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// publicTypes has a value of each exported type of this package, of verbs and of rdmacm.
var publicTypes = []any{
	verbs.AH{}, verbs.AddrError{}, ArgError{}, PanicError{}, verbs.BufPool{}, verbs.PoolBuf{}, verbs.MappedBuffer{},
	rdmacm.Counters{}, rdmacm.Event{}, rdmacm.EventType(0), rdmacm.ID{}, verbs.CQ{}, verbs.CQOptions{},
	verbs.CompletionChannel{}, verbs.Config{}, Conn{}, verbs.ConnAttr{}, ConnConfig{},
	rdmacm.ConnParam{}, ConnRequest{}, verbs.Device{}, verbs.DeviceAttr{}, Dialer{}, verbs.Event{},
	rdmacm.EventChannel{}, rdmacm.IDStateError{}, ListenConfig{}, Listener{}, Server{},
	rdmacm.ListenLimits{}, verbs.MR{}, verbs.MW{}, Message{}, MessageTooLongError{}, LostError{},
	ConnState(0), ConnStats{}, verbs.QPStats{}, NoRouteError{}, OpError{}, OpenError{}, verbs.PD{}, Pending{},
	verbs.PortAttr{}, verbs.QP{}, verbs.QPInitAttr{}, verbs.MROptions{}, verbs.AtomicCap(0), verbs.Counters{},
	verbs.QPCaps{}, verbs.AddressVector{}, verbs.QPAttr{}, verbs.SRQAttr{}, verbs.WC{}, verbs.SGE{},
	verbs.SendWR{}, verbs.BindMW{}, verbs.RecvWR{}, RejectedError{}, verbs.RemoteInfo{}, RemoteMemory{},
	verbs.Rereg{}, verbs.SRQ{}, StatusError{}, rdmacm.UDParam{},
}

// publicFuncs has each exported function of them.
var publicFuncs = map[string]any{
	"verbs.DefaultAddrs": verbs.DefaultAddrs, "verbs.DefaultConnAttr": verbs.DefaultConnAttr,
	"rdmacm.DefaultConnParam": rdmacm.DefaultConnParam, "roce.DefaultDevice": DefaultDevice,
	"roce.DefaultDeviceFor": DefaultDeviceFor, "roce.Dial": Dial, "roce.Listen": Listen,
	"verbs.MapBuffer": verbs.MapBuffer, "verbs.NewBufPool": verbs.NewBufPool,
	"verbs.Open": verbs.Open, "roce.SharedMemory": SharedMemory, "roce.Shutdown": Shutdown,
	"roce.Conns": Conns, "verbs.WCError": verbs.WCError, "rdmacm.CreateEventChannel": rdmacm.CreateEventChannel,
	"rdmacm.CreateID": rdmacm.CreateID, "rdmacm.CountersOf": rdmacm.CountersOf,
	"rdmacm.RouteSource": rdmacm.RouteSource,
}

// exported returns the exported types and functions that the source declares, as "verbs.QP".
func exported(t *testing.T) (types, funcs []string) {
	var names []string
	for _, dir := range []string{".", "verbs", "rdmacm"} {
		more, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		names = append(names, more...)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.IsExported() {
					funcs = append(funcs, file.Name.Name+"."+d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok && s.Name.IsExported() && !s.Assign.IsValid() {
						types = append(types, file.Name.Name+"."+s.Name.Name)
					}
				}
			}
		}
	}
	return types, funcs
}

// Nothing that a program can do with zero values panics or waits for ever: each method of each
// exported type is called on its zero value, and on one that is alive, and each exported function,
// with zero values as arguments. Errors are of this package.
func TestZeroValues(t *testing.T) {
	names, funcs := exported(t)
	byName := map[string]reflect.Type{}
	for _, v := range publicTypes {
		byName[reflect.TypeOf(v).String()] = reflect.TypeOf(v)
	}
	for _, name := range names {
		if byName[name] == nil {
			t.Errorf("type %s is new: add it to publicTypes", name)
			continue
		}
		t.Run(name, func(t *testing.T) { callMethods(t, byName[name]) })
	}
	for _, name := range funcs {
		if publicFuncs[name] == nil {
			t.Errorf("function %s is new: add it to publicFuncs", name)
			continue
		}
		t.Run(name, func(t *testing.T) { callZero(t, rocetest.Context(t), reflect.ValueOf(publicFuncs[name])) })
	}
	for _, d := range defaults.devs {
		require.NoError(t, d.Close())
	}
}

// callMethods calls all methods of a type, each on a zero value of its own.
func callMethods(t *testing.T, typ reflect.Type) {
	for i := range reflect.PointerTo(typ).NumMethod() {
		v := reflect.New(typ)
		t.Run(v.Type().Method(i).Name, func(t *testing.T) {
			ctx := rocetest.Context(t)
			callZero(t, ctx, v.Method(i))
			require.NoError(t, ctx.Err(), "waits for what cannot come")
		})
	}
}

// callZero calls f with zero values for all but contexts.
func callZero(t *testing.T, ctx context.Context, f reflect.Value) {
	t.Helper()
	var args []reflect.Value
	for i := range f.Type().NumIn() {
		in := f.Type().In(i)
		switch {
		case f.Type().IsVariadic() && i == f.Type().NumIn()-1:
		case in == reflect.TypeFor[context.Context]():
			args = append(args, reflect.ValueOf(ctx))
		default:
			args = append(args, reflect.Zero(in))
		}
	}
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	for _, out := range f.Call(args) {
		switch r := out.Interface().(type) {
		case error:
			_ = r.Error()
			requireVocabulary(t, r)
		case *verbs.Device:
			if r != nil {
				require.NoError(t, r.Close())
			}
		case fmt.Stringer:
			_ = r.String()
		}
	}
}

// TestZeroArguments is TestZeroValues for objects that are alive, all of which go on
// to work or to fail as they should.
func TestZeroArguments(t *testing.T) {
	over, cancel := context.WithCancel(rocetest.Context(t))
	cancel()
	for _, typ := range publicTypes {
		name := reflect.TypeOf(typ).Name()
		for i := range reflect.PointerTo(reflect.TypeOf(typ)).NumMethod() {
			live := liveValue(t, name)
			if live == nil {
				break
			}
			v := reflect.ValueOf(live)
			t.Run(name+"/"+v.Type().Method(i).Name, func(t *testing.T) { callZero(t, over, v.Method(i)) })
		}
	}
}

// liveValue returns a pointer to a value of a type as the package makes them, on a device of its
// own; nil for types without objects beneath.
func liveValue(t *testing.T, name string, device ...func(*verbs.Device)) any {
	made := map[string]func(e, peer *rocetest.End) any{
		"AH":           func(e, peer *rocetest.End) any { ah, _ := e.PD.CreateAHTo(peer.D.GIDs()[0]); return ah },
		"BufPool":      func(e, _ *rocetest.End) any { return verbs.NewBufPool(e.PD, 0) },
		"PoolBuf":      func(e, _ *rocetest.End) any { b, _ := verbs.NewBufPool(e.PD, 0).Get(1); return b },
		"MappedBuffer": func(*rocetest.End, *rocetest.End) any { b, _ := verbs.MapBuffer(1, false); return b },
		"ID": func(e, _ *rocetest.End) any {
			ch, _ := rdmacm.CreateEventChannel(e.D)
			id, _ := rdmacm.CreateID(ch, rdmacm.PortSpaceTCP)
			return id
		},
		"CQ":                func(e, _ *rocetest.End) any { cq, _ := e.D.CreateCQ(1, nil); return cq },
		"CompletionChannel": func(e, _ *rocetest.End) any { ch, _ := e.D.CreateCompletionChannel(); return ch },
		"Conn": func(e, peer *rocetest.End) any {
			c, _ := connPair(t, e.D, peer.D, ConnConfig{})
			return c
		},
		"Device":       func(e, _ *rocetest.End) any { return e.D },
		"EventChannel": func(e, _ *rocetest.End) any { ch, _ := rdmacm.CreateEventChannel(e.D); return ch },
		"Listener":     func(e, _ *rocetest.End) any { return listenOn(t, e.D, ListenConfig{}) },
		"MR":           func(e, _ *rocetest.End) any { return e.MR },
		"MW":           func(e, _ *rocetest.End) any { mw, _ := e.PD.AllocMW(verbs.WindowType1); return mw },
		"Message": func(e, peer *rocetest.End) any {
			c, s := connPair(t, e.D, peer.D, ConnConfig{})
			require.NoError(t, s.Send(rocetest.Context(t), []byte("hello")))
			m, err := c.RecvMsg(rocetest.Context(t))
			require.NoError(t, err)
			return &m
		},
		"PD": func(e, _ *rocetest.End) any { pd, _ := e.D.AllocPD(); return pd },
		"Pending": func(e, peer *rocetest.End) any {
			c, _ := connPair(t, e.D, peer.D, ConnConfig{})
			p, err := c.Start(rocetest.Context(t), verbs.SendWR{Opcode: verbs.WRWrite})
			require.NoError(t, err)
			return p
		},
		"QP": func(e, _ *rocetest.End) any { return e.QP },
		"Server": func(e, _ *rocetest.End) any {
			return &Server{ListenConfig: ListenConfig{ConnConfig: ConnConfig{Device: e.D}},
				Handler: func(context.Context, *Conn) error { return nil }}
		},
		"SRQ": func(e, _ *rocetest.End) any { s, _ := e.PD.CreateSRQ(verbs.SRQAttr{}); return s },
	}[name]
	if made == nil {
		return nil
	}
	ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), 2)
	for _, f := range device {
		f(ds[0])
	}
	return made(rocetest.NewEnd(t, ds[0], 64, verbs.QPInitAttr{}), rocetest.NewEnd(t, ds[1], 64, verbs.QPInitAttr{}))
}

// Every object ends in the same way: with Close, of which a second one does nothing, nor one of a
// zero value, nor one after that of the device. (Shutdown of a server waits for its work first.)
func TestClosing(t *testing.T) {
	found := 0
	for _, v := range publicTypes {
		typ := reflect.PointerTo(reflect.TypeOf(v))
		for _, other := range []string{"Destroy", "Dealloc", "Deregister", "Free"} {
			_, has := typ.MethodByName(other)
			require.False(t, has, "%v has %s", typ, other)
		}
		if _, has := typ.MethodByName("Close"); !has {
			continue
		}
		found++
		t.Run(typ.Elem().String(), func(t *testing.T) {
			closed := func(c io.Closer) {
				t.Helper()
				require.NoError(t, c.Close())
				require.NoError(t, c.Close(), "again")
			}
			closed(reflect.New(typ.Elem()).Interface().(io.Closer))
			live := func() (io.Closer, *verbs.Device) {
				var d *verbs.Device
				v := liveValue(t, typ.Elem().Name(), func(on *verbs.Device) { d = on })
				require.NotNil(t, v, "TestZeroValues makes none")
				return v.(io.Closer), d
			}
			c, _ := live()
			closed(c)
			c, d := live()
			closed(d)
			closed(c)
		})
	}
	require.Equal(t, 16, found, "objects that end")
}

// What others need is not closed under them, and can be when they have gone.
func TestClosingInUse(t *testing.T) {
	d := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 1}), 1)[0]
	pd, err := d.AllocPD()
	require.NoError(t, err)
	cq, err := d.CreateCQ(1, nil)
	require.NoError(t, err)
	srq, err := pd.CreateSRQ(verbs.SRQAttr{})
	require.NoError(t, err)
	qp, err := pd.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, SRQ: srq})
	require.NoError(t, err)
	buf, mr, err := pd.AllocBuffer(4096, verbs.AccessAll)
	require.NoError(t, err)
	mw, err := pd.AllocMW(verbs.WindowType1)
	require.NoError(t, err)
	_, err = mw.Bind(pd, mr, 0, 8, RemoteRead)
	require.NoError(t, err)
	for _, c := range []io.Closer{cq, srq, mr, buf, pd} {
		require.ErrorIs(t, c.Close(), ErrBusy, "%T", c)
	}
	for _, c := range []io.Closer{qp, cq, srq, mw, mr, buf, pd} {
		require.NoError(t, c.Close(), "%T", c)
		require.NoError(t, c.Close(), "%T, again", c)
	}
}
