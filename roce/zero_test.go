package roce

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

// publicTypes has a value of each exported type of the package.
var publicTypes = []any{
	AH{}, AddrError{}, Alarm{}, ArgError{}, BufPool{}, Buf{}, Buffer{}, CMCounters{}, CMEvent{}, CMEventType(0), CMID{}, CQ{},
	CompletionChannel{}, Config{}, Conn{}, ConnAttr{}, ConnConfig{}, ConnOption(nil), ConnParam{}, ConnRequest{},
	Device{}, DeviceAttr{}, Dialer{}, Event{}, EventChannel{}, IDStateError{}, ListenConfig{}, Listener{}, ListenLimits{}, MR{}, MW{},
	Message{}, NoRouteError{}, OpError{}, OpenError{}, PD{}, Pending{}, PortAttr{}, QP{}, QPInitAttr{}, RegOption(nil),
	RejectedError{}, RemoteInfo{}, RemoteMemory{}, Rereg{}, SRQ{}, StatusError{}, UDParam{},
}

// publicFuncs has each exported function of the package.
var publicFuncs = map[string]any{
	"DefaultAddrs": DefaultAddrs, "DefaultConnAttr": DefaultConnAttr, "DefaultConnParam": DefaultConnParam,
	"DefaultDevice": DefaultDevice, "DefaultDeviceFor": DefaultDeviceFor, "Dial": Dial, "Listen": Listen, "MapBuffer": MapBuffer, "NewBufPool": NewBufPool,
	"Open": Open, "SharedMemory": SharedMemory, "WCError": WCError, "WithAccess": WithAccess, "WithConnAttr": WithConnAttr,
	"WithIOVA": WithIOVA, "WithMTU": WithMTU, "WithPersist": WithPersist, "WithRNR": WithRNR, "WithRdAtomic": WithRdAtomic,
	"WithRelease": WithRelease, "WithTimeout": WithTimeout,
}

// exported returns the exported types and functions that the source declares.
func exported(t *testing.T) (types, funcs []string) {
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
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
					funcs = append(funcs, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok && s.Name.IsExported() && !s.Assign.IsValid() {
						types = append(types, s.Name.Name)
					}
				}
			}
		}
	}
	return types, funcs
}

// Nothing that a program can do with zero values panics or waits for ever: each
// method of each exported type is called on its zero value, and on one that is
// alive, and each exported function, with zero values as arguments. Errors are
// of this package.
func TestZeroValues(t *testing.T) {
	names, funcs := exported(t)
	byName := map[string]reflect.Type{}
	for _, v := range publicTypes {
		byName[reflect.TypeOf(v).Name()] = reflect.TypeOf(v)
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
		t.Run(name, func(t *testing.T) { callZero(t, testContext(t), reflect.ValueOf(publicFuncs[name])) })
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
			ctx := testContext(t)
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
		case *Device:
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
	over, cancel := context.WithCancel(testContext(t))
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
func liveValue(t *testing.T, name string) any {
	made := map[string]func(e, peer *end) any{
		"AH":      func(e, peer *end) any { ah, _ := e.pd.CreateAHTo(peer.d.GIDs()[0]); return ah },
		"Alarm":   func(e, _ *end) any { return e.d.NewAlarm(func() {}) },
		"BufPool": func(e, _ *end) any { return NewBufPool(e.pd, 0) },
		"Buf":     func(e, _ *end) any { b, _ := NewBufPool(e.pd, 0).Get(1); return b },
		"Buffer":  func(*end, *end) any { b, _ := MapBuffer(1, false); return b },
		"CMID": func(e, _ *end) any {
			ch, _ := e.d.CreateEventChannel()
			id, _ := e.d.CreateID(ch, PortSpaceTCP)
			return id
		},
		"CQ":                func(e, _ *end) any { return e.cq },
		"CompletionChannel": func(e, _ *end) any { ch, _ := e.d.CreateCompletionChannel(); return ch },
		"Conn":              func(e, peer *end) any { c, _ := connPair(t, e.d, peer.d, ConnConfig{}); return c },
		"Device":            func(e, _ *end) any { return e.d },
		"EventChannel":      func(e, _ *end) any { ch, _ := e.d.CreateEventChannel(); return ch },
		"Listener":          func(e, _ *end) any { return listenOn(t, e.d, ListenConfig{}) },
		"MR":                func(e, _ *end) any { return e.mr },
		"MW":                func(e, _ *end) any { mw, _ := e.pd.AllocMW(WindowType1); return mw },
		"Message": func(e, peer *end) any {
			c, s := connPair(t, e.d, peer.d, ConnConfig{})
			require.NoError(t, s.Send(testContext(t), []byte("hello")))
			m, err := c.RecvMsg(testContext(t))
			require.NoError(t, err)
			return &m
		},
		"PD": func(e, _ *end) any { return e.pd },
		"Pending": func(e, peer *end) any {
			c, _ := connPair(t, e.d, peer.d, ConnConfig{})
			p, err := c.Start(testContext(t), SendWR{Opcode: WRWrite})
			require.NoError(t, err)
			return p
		},
		"QP":  func(e, _ *end) any { return e.qp },
		"SRQ": func(e, _ *end) any { s, _ := e.pd.CreateSRQ(SRQAttr{}); return s },
	}[name]
	if made == nil {
		return nil
	}
	ds := simDevices(t, sim.New(sim.Config{Seed: 1}), 2)
	return made(newEnd(t, ds[0], 64, QPInitAttr{}), newEnd(t, ds[1], 64, QPInitAttr{}))
}
