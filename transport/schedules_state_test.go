package transport_test

import (
	"encoding/binary"
	"hash/maphash"
	"reflect"
	"slices"

	"github.com/goroce/goroce/transport"
)

// stateHash hashes the state of engines, so that a state can be met again on another way. It
// walks everything that an engine refers to, by reflection. Pointers are replaced by the order in which
// they are met, and times by how far they are from now.
//
// Left out is what no decision depends on: counters, the packet that was handled last, tracers, the slots of a
// completion queue that was polled, registered memory (the caller hashes its bytes), and the table of it.
type stateHash struct {
	h    maphash.Hash
	now  int64
	seen map[uintptr]uint64
	buf  [8]byte
}

var stateSeed = maphash.MakeSeed()

func newStateHash(now int64) *stateHash {
	s := &stateHash{now: now, seen: map[uintptr]uint64{}}
	s.h.SetSeed(stateSeed)
	return s
}

func (s *stateHash) word(v uint64) {
	binary.LittleEndian.PutUint64(s.buf[:], v)
	_, _ = s.h.Write(s.buf[:])
}

func (s *stateHash) bytes(b []byte) {
	s.word(uint64(len(b)))
	_, _ = s.h.Write(b)
}

func (s *stateHash) sum() uint64 { return s.h.Sum64() }

func (s *stateHash) engine(e *transport.Engine) { s.value(reflect.ValueOf(e).Elem()) }

// bool hashes a truth.
func (s *stateHash) bool(v bool) { s.word(map[bool]uint64{true: 1}[v]) }

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
		s.value(slots.Index(int(i) & (slots.Len() - 1)))
	}
}

// leftOut are the fields, by type and name, that no decision depends on.
var leftOut = map[string]bool{
	"Engine.cfg": true, "Engine.counters": true, "Engine.rx": true, "Engine.now": true, "Engine.run": true, "Engine.inRun": true,
	"Engine.lastQP": true, "Engine.mcast": true,
	"Engine.kept": true, "keptPacket.buf": true,
	"CQ.prod": true, "CQ.cons": true, "CQ.events": true, "CQ.limit": true,
	"QP.pd": true, "QP.caps": true, "QP.userData": true,
	"retryState.timeouts": true, "requester.sentAgain": true,
}

// times are the fields that hold a time: it counts how far it is away.
var times = map[string]bool{
	"qpTimers.at": true, "timerEntry.at": true, "retryState.since": true, "sentPacket.at": true, "missing.cutNs": true, "rttEstimate.sentAt": true, "flight.cutAt": true, "nakState.againAt": true,
}

// foreign are packages whose values are hashed by the caller or never change.
var foreignTypes = map[string]bool{"github.com/goroce/goroce/mem": true, "sync": true}

func (s *stateHash) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		s.word(map[bool]uint64{true: 1}[v.Bool()])
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		s.word(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		s.word(v.Uint())
	case reflect.Float32, reflect.Float64:
		s.word(uint64(v.Float() * 1e6))
	case reflect.String:
		s.bytes([]byte(v.String()))
	case reflect.Pointer:
		s.pointer(v)
	case reflect.Interface:
		s.word(map[bool]uint64{true: 1}[v.IsNil()])
		if !v.IsNil() && v.Elem().Kind() == reflect.Pointer {
			s.pointer(v.Elem())
		}
	case reflect.Slice:
		s.word(uint64(v.Len()))
		if v.Type().Elem().Kind() == reflect.Uint8 {
			s.bytes(v.Bytes())
			return
		}
		for i := range v.Len() {
			s.value(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			s.value(v.Index(i))
		}
	case reflect.Map:
		s.mapped(v)
	case reflect.Struct:
		s.fields(v)
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		s.word(map[bool]uint64{true: 1}[v.IsNil()])
	}
}

func (s *stateHash) pointer(v reflect.Value) {
	if v.IsNil() {
		s.word(0)
		return
	}
	at := v.Pointer()
	if n, ok := s.seen[at]; ok {
		s.word(n)
		return
	}
	n := uint64(len(s.seen) + 1)
	s.seen[at] = n
	s.word(n)
	if !foreignTypes[v.Type().Elem().PkgPath()] {
		s.value(v.Elem())
	}
}

// mapped hashes a map of few entries in an order that does not depend on it.
func (s *stateHash) mapped(v reflect.Value) {
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
		s.value(v.MapIndex(k))
	}
}

// fieldPlan is what of a field is hashed.
type fieldPlan struct {
	index  int
	isTime bool
}

// plans are made once for each type: looking names up for each state takes most of the time otherwise.
var plans = map[reflect.Type][]fieldPlan{}

func planOf(t reflect.Type) []fieldPlan {
	if p, ok := plans[t]; ok {
		return p
	}
	var p []fieldPlan
	for i := range t.NumField() {
		name := t.Name() + "." + t.Field(i).Name
		switch {
		case foreignTypes[t.PkgPath()] && t.Name() != "SGE", t.Field(i).Name == "_", leftOut[name]:
		default:
			p = append(p, fieldPlan{i, times[name]})
		}
	}
	plans[t] = p
	return p
}

func (s *stateHash) fields(v reflect.Value) {
	for _, f := range planOf(v.Type()) {
		if f.isTime {
			s.time(v, v.Field(f.index))
		} else {
			s.value(v.Field(f.index))
		}
	}
}

// longAgo is how far back a time may lie to make a difference: more than minEpisodeNs.
const longAgo = 3 * ms

// time hashes how far a time, or each of an array of them, is from now.
func (s *stateHash) time(in, v reflect.Value) {
	if v.Kind() != reflect.Array {
		if timing := in.FieldByName("timing"); timing.IsValid() && !timing.Bool() {
			return // of what was timed before
		}
		s.word(uint64(max(v.Int()-s.now, -longAgo)))
		return
	}
	set := in.FieldByName("set").Uint() // the others hold what was
	for i := range v.Len() {
		if set>>i&1 != 0 {
			s.word(uint64(v.Index(i).Int() - s.now))
		}
	}
}
