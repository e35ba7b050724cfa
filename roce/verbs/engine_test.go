package verbs

import (
	"reflect"
	"testing"

	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// The types that the engine is handed without copying have its layout: the same fields in the
// same places. Objects and the structures that hold them are pointers to other types, in the same
// places all the same.
func TestEngineLayout(t *testing.T) {
	sameLayout(t, reflect.TypeFor[SGE](), reflect.TypeFor[mem.SGE]())
	sameLayout(t, reflect.TypeFor[WC](), reflect.TypeFor[transport.WC]())
	sameLayout(t, reflect.TypeFor[RecvWR](), reflect.TypeFor[transport.RecvWR]())
	sameLayout(t, reflect.TypeFor[SendWR](), reflect.TypeFor[transport.SendWR]())
}

// sameLayout compares two types.
func sameLayout(t *testing.T, here, engine reflect.Type) {
	t.Helper()
	if here == engine {
		return
	}
	require.Equal(t, engine.Kind(), here.Kind(), "%v and %v", here, engine)
	require.Equal(t, engine.Size(), here.Size(), "%v and %v", here, engine)
	switch here.Kind() {
	case reflect.Pointer: // to an object, which the engine is never handed
	case reflect.Slice:
		sameLayout(t, here.Elem(), engine.Elem())
	case reflect.Struct:
		require.Equal(t, engine.NumField(), here.NumField(), "%v and %v", here, engine)
		for i := range here.NumField() {
			h, e := here.Field(i), engine.Field(i)
			if h.Type.Kind() != reflect.Pointer {
				require.Equal(t, e.Name, h.Name)
			}
			require.Equal(t, e.Offset, h.Offset, h.Name)
			sameLayout(t, h.Type, e.Type)
		}
	default:
		t.Fatalf("%v is not %v", here, engine)
	}
}

// A request that names objects is copied with the engine's own, and keeps everything else.
func TestEngineObjects(t *testing.T) {
	var wr SendWR
	require.False(t, namesObjects(nil))
	require.False(t, namesObjects(&wr))
	fillFields(t, reflect.ValueOf(&wr).Elem(), new(uint64))
	on := new(shard.Shard)
	wr.AH = &AH{of: []*transport.AH{new(transport.AH)}}
	wr.Opcode = WRSendImm
	require.True(t, namesObjects(&wr))
	send := translated(on, &wr)
	require.Same(t, wr.AH.of[0], send.AH)
	require.Zero(t, send.Bind, "a request of another kind has none")
	sameFields(t, reflect.ValueOf(wr), reflect.ValueOf(send), map[string]bool{"AH": true, "Bind": true})

	wr.AH = nil
	wr.Opcode = WRBindMW
	wr.Bind.MW, wr.Bind.MR = &MW{t: new(mem.Window)}, &MR{t: new(mem.Region)}
	require.True(t, namesObjects(&wr))
	send = translated(on, &wr)
	require.Same(t, wr.Bind.MW.t, send.Bind.MW)
	require.Same(t, wr.Bind.MR.t, send.Bind.Region)
	sameFields(t, reflect.ValueOf(wr.Bind), reflect.ValueOf(send.Bind), map[string]bool{"MW": true, "MR": true})

	wr.Bind = BindMW{}
	send = translated(on, &wr)
	require.Nil(t, send.Bind.MW)
	require.Nil(t, send.Bind.Region)
}

// The attributes of a queue pair reach the engine and come back under the same names.
func TestEngineQPAttr(t *testing.T) {
	var a, back QPAttr
	fillFields(t, reflect.ValueOf(&a).Elem(), new(uint64))
	e := a.toEngine()
	sameFields(t, reflect.ValueOf(a), reflect.ValueOf(e), map[string]bool{"SilenceTimeout": true})
	require.EqualValues(t, a.SilenceTimeout, e.SilenceNs)
	back.ofEngine(&e)
	require.Equal(t, a, back)
}

// A list is handed over as it is, and one that is empty or nil stays so.
func TestEngineLists(t *testing.T) {
	wcs := make([]WC, 3)
	e := engineWCs(wcs)
	require.Len(t, e, 3)
	e[2] = transport.WC{ID: 7, Status: transport.WCFlushErr, VendorErr: 9}
	require.Equal(t, WC{ID: 7, Status: WCFlushErr, VendorErr: 9}, wcs[2])
	require.Nil(t, engineWCs(nil))
	require.Nil(t, engineSend(nil))
	require.Nil(t, engineRecv(nil))
}

// fillFields gives each field a value of its own.
func fillFields(t *testing.T, v reflect.Value, n *uint64) {
	t.Helper()
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillFields(t, v.Field(i), n)
		}
	case reflect.Array:
		for i := range v.Len() {
			fillFields(t, v.Index(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fillFields(t, v.Index(1), n)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(*n)
	case reflect.Pointer: // objects, which the test sets
	default:
		t.Fatalf("a field of type %v", v.Type())
	}
}

// sameFields compares the fields of two structures by their names.
func sameFields(t *testing.T, here, engine reflect.Value, but map[string]bool) {
	t.Helper()
	require.Equal(t, engine.NumField(), here.NumField(), "fields of %v", here.Type())
	for i := range here.NumField() {
		f := here.Type().Field(i)
		if but[f.Name] {
			continue
		}
		h, e := here.Field(i), engine.FieldByName(f.Name)
		require.True(t, e.IsValid(), "%v has no %s", engine.Type(), f.Name)
		require.False(t, h.IsZero(), "%s is not filled in", f.Name)
		switch f.Type.Kind() {
		case reflect.Struct:
			sameFields(t, h, e, nil)
		case reflect.Slice:
			require.Equal(t, h.Len(), e.Len(), f.Name)
			require.EqualValues(t, h.Index(1).Convert(e.Type().Elem()).Interface(), e.Index(1).Interface(), f.Name)
		default:
			require.Equal(t, h.Interface(), e.Interface(), f.Name)
		}
	}
}
