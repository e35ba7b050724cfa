package transport_test

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"reflect"
	"slices"
	"unsafe"

	"github.com/goroce/goroce/transport"
)

// stateHash hashes the state of engines, so that a state can be met again on another way. It walks
// everything that an engine refers to: a plan for each type, made once by reflection, says where
// its words are. Pointers are replaced by the order in which they are met, and times by how far
// they are from now.
//
// Left out is what no decision depends on: counters, the packet that was handled last, tracers, the
// slots of a completion queue that was polled, registered memory (the caller hashes its bytes), and
// the table of it.
type stateHash struct {
	all  []byte // what is hashed
	now  int64
	seen []unsafe.Pointer
}

var stateSeed = maphash.MakeSeed()

// reset begins anew.
func (s *stateHash) reset(now int64) { s.all, s.seen, s.now = s.all[:0], s.seen[:0], now }

func (s *stateHash) word(v uint64) { s.all = binary.LittleEndian.AppendUint64(s.all, v) }

func (s *stateHash) bytes(b []byte) {
	s.word(uint64(len(b)))
	s.all = append(s.all, b...)
}

// bool hashes a truth.
func (s *stateHash) bool(v bool) {
	if v {
		s.word(1)
	} else {
		s.word(0)
	}
}

func (s *stateHash) sum() uint64 { return maphash.Bytes(stateSeed, s.all) }

func (s *stateHash) engine(e *transport.Engine) {
	planOf(reflect.TypeFor[transport.Engine]()).walk(s, unsafe.Pointer(e))
}

// queue hashes the completions that nobody has looked at.
func (s *stateHash) queue(cq *transport.CQ) {
	n := uint64(cq.Len())
	s.word(n)
	if n == 0 {
		return
	}
	v := reflect.ValueOf(cq).Elem()
	slots := v.FieldByName("cons").Elem().FieldByName("slots")
	head := v.FieldByName("head").FieldByName("v").Uint()
	for i := head; i < head+n; i++ {
		at := slots.Index(int(i) & (slots.Len() - 1))
		planOf(at.Type()).walk(s, at.Addr().UnsafePointer())
	}
}

// leftOut are the fields, by type and name, that no decision depends on.
var leftOut = map[string]bool{
	"Engine.cfg": true, "Engine.counters": true, "Engine.rx": true, "Engine.now": true, "Engine.run": true,
	"Engine.inRun": true, "Engine.lastQP": true, "Engine.mcast": true,
	"Engine.kept": true, "keptPacket.buf": true,
	"CQ.prod": true, "CQ.cons": true, "CQ.events": true, "CQ.limit": true,
	"QP.pd": true, "QP.caps": true, "QP.userData": true,
	"retryState.timeouts": true, "requester.sentAgain": true,
}

// times are the fields that hold a time: it counts how far it is away.
var times = map[string]bool{
	"qpTimers.at": true, "timerEntry.at": true, "retryState.since": true, "sentPacket.at": true, "missing.cutNs": true,
	"rttEstimate.sentAt": true, "flight.cutAt": true, "nakState.againAt": true, "nakState.firstAt": true,
}

// foreignTypes are packages whose values are hashed by the caller or never change.
var foreignTypes = map[string]bool{"github.com/goroce/goroce/mem": true, "sync": true}

// plan says how the values of a type are hashed.
type plan struct {
	size  uintptr
	steps []step
}

// step hashes a part of a value.
type step struct {
	at uintptr // offset in the value
	do func(s *stateHash, p unsafe.Pointer)
	n  uintptr // bytes that are hashed as they are, if do is nil
}

func (p *plan) walk(s *stateHash, at unsafe.Pointer) {
	for i := range p.steps {
		if x := &p.steps[i]; x.do == nil {
			s.all = append(s.all, unsafe.Slice((*byte)(unsafe.Add(at, x.at)), x.n)...)
		} else {
			x.do(s, unsafe.Add(at, x.at))
		}
	}
}

// raw adds bytes that are hashed as they are.
func (p *plan) raw(at, n uintptr) {
	if k := len(p.steps) - 1; k >= 0 && p.steps[k].do == nil && p.steps[k].at+p.steps[k].n == at {
		p.steps[k].n += n
		return
	}
	p.steps = append(p.steps, step{at: at, n: n})
}

func (p *plan) call(at uintptr, do func(s *stateHash, p unsafe.Pointer)) {
	p.steps = append(p.steps, step{at: at, do: do})
}

// plans are made once for each type.
var plans = map[reflect.Type]*plan{}

func planOf(t reflect.Type) *plan {
	if p, ok := plans[t]; ok {
		return p
	}
	p := &plan{size: t.Size()}
	plans[t] = p
	p.value(t, 0)
	return p
}

// value adds what is hashed of a value of type t at an offset.
func (p *plan) value(t reflect.Type, at uintptr) {
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		p.raw(at, t.Size())
	case reflect.Float32, reflect.Float64:
		p.call(at, func(s *stateHash, q unsafe.Pointer) {
			s.word(uint64(reflect.NewAt(t, q).Elem().Float() * 1e6))
		})
	case reflect.String:
		p.call(at, func(s *stateHash, q unsafe.Pointer) { s.bytes([]byte(*(*string)(q))) })
	case reflect.Pointer:
		p.call(at, pointerTo(t.Elem()))
	case reflect.Interface:
		p.call(at, func(s *stateHash, q unsafe.Pointer) {
			v := reflect.NewAt(t, q).Elem()
			s.bool(v.IsNil())
			if !v.IsNil() && v.Elem().Kind() == reflect.Pointer {
				to := v.Elem().UnsafePointer()
				pointerTo(v.Elem().Type().Elem())(s, unsafe.Pointer(&to))
			}
		})
	case reflect.Slice:
		p.call(at, sliceOf(t.Elem()))
	case reflect.Array:
		for i := range t.Len() {
			p.value(t.Elem(), at+uintptr(i)*t.Elem().Size())
		}
	case reflect.Map:
		p.call(at, mapOf(t))
	case reflect.Struct:
		p.fields(t, at)
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		p.call(at, func(s *stateHash, q unsafe.Pointer) { s.bool(*(*unsafe.Pointer)(q) == nil) })
	}
}

func pointerTo(elem reflect.Type) func(s *stateHash, q unsafe.Pointer) {
	foreign := foreignTypes[elem.PkgPath()]
	var of *plan
	return func(s *stateHash, q unsafe.Pointer) {
		to := *(*unsafe.Pointer)(q)
		if to == nil {
			s.word(0)
			return
		}
		if i := slices.Index(s.seen, to); i >= 0 {
			s.word(uint64(i + 1))
			return
		}
		s.seen = append(s.seen, to)
		s.word(uint64(len(s.seen)))
		if foreign {
			return
		}
		if of == nil {
			of = planOf(elem)
		}
		of.walk(s, to)
	}
}

func sliceOf(elem reflect.Type) func(s *stateHash, q unsafe.Pointer) {
	var of *plan
	return func(s *stateHash, q unsafe.Pointer) {
		b := *(*[]byte)(q) // its header
		s.word(uint64(len(b)))
		if of == nil {
			of = planOf(elem)
		}
		for i, at := 0, unsafe.Pointer(unsafe.SliceData(b)); i < len(b); i++ {
			of.walk(s, unsafe.Add(at, uintptr(i)*of.size))
		}
	}
}

// mapOf hashes maps of few entries in an order that does not depend on the map's.
func mapOf(t reflect.Type) func(s *stateHash, q unsafe.Pointer) {
	return func(s *stateHash, q unsafe.Pointer) {
		v := reflect.NewAt(t, q).Elem()
		s.word(uint64(v.Len()))
		keys := v.MapKeys()
		if len(keys) > 1 {
			slices.SortFunc(keys, func(a, b reflect.Value) int {
				if a.CanUint() {
					return int(int64(a.Uint()) - int64(b.Uint()))
				}
				return 0
			})
		}
		for _, k := range keys {
			for _, x := range []reflect.Value{k, v.MapIndex(k)} {
				n := reflect.New(x.Type())
				n.Elem().Set(x)
				planOf(x.Type()).walk(s, n.UnsafePointer())
			}
		}
	}
}

func (p *plan) fields(t reflect.Type, at uintptr) {
	for i := range t.NumField() {
		f := t.Field(i)
		name := t.Name() + "." + f.Name
		switch {
		case foreignTypes[t.PkgPath()] && t.Name() != "SGE", f.Name == "_", leftOut[name]:
		case times[name]:
			p.time(t, f, at)
		default:
			p.value(f.Type, at+f.Offset)
		}
	}
}

// longAgo is how far back a time may lie to make a difference: more than minEpisodeNs.
const longAgo = 3 * ms

// time hashes how far a time, or each of an array of them, is from now.
func (p *plan) time(in reflect.Type, f reflect.StructField, at uintptr) {
	if f.Type.Kind() == reflect.Array {
		set, _ := in.FieldByName("set")
		p.call(at, func(s *stateHash, q unsafe.Pointer) {
			bits := *(*uint8)(unsafe.Add(q, set.Offset)) // the others hold what was
			for i := range f.Type.Len() {
				if bits>>i&1 != 0 {
					s.word(uint64(*(*int64)(unsafe.Add(q, f.Offset+uintptr(i)*8)) - s.now))
				}
			}
		})
		return
	}
	timing, ok := in.FieldByName("timing")
	p.call(at, func(s *stateHash, q unsafe.Pointer) {
		if ok && !*(*bool)(unsafe.Add(q, timing.Offset)) {
			return // of what was timed before
		}
		s.word(uint64(max(*(*int64)(unsafe.Add(q, f.Offset))-s.now, math.MinInt64/2, -longAgo)))
	})
}
