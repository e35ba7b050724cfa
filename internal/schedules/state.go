package schedules

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"reflect"
	"slices"
)

// Rules say what of the fields of structures is state. Fields are named Type.field.
type Rules struct {
	// Skip are fields that no decision depends on.
	Skip map[string]bool
	// Times are fields that hold a moment. What counts is how far it is from now. The value is how
	// far back a moment can lie and still make a difference.
	Times map[string]int64
	// When are fields that only count if the function says so of their structure.
	When map[string]func(reflect.Value) bool

	plans map[reflect.Type][]fieldPlan
}

type fieldPlan struct {
	index int
	time  bool
	back  int64
	when  func(reflect.Value) bool
}

// State gathers what tells states apart. Pointers are replaced by the order in which they are met,
// and maps are walked in the order of their keys.
type State struct {
	rules *Rules
	now   int64
	buf   []byte
	seen  map[reference]uint64
}

// reference is a pointer of a type: a structure and its first field have one address.
type reference struct {
	at uintptr
	of reflect.Type
}

// NewState begins at a moment.
func NewState(rules *Rules, now int64) *State {
	if rules.plans == nil {
		rules.plans = map[reflect.Type][]fieldPlan{}
	}
	return &State{rules: rules, now: now, seen: map[reference]uint64{}}
}

// Word adds a number.
func (s *State) Word(v uint64) { s.buf = binary.AppendUvarint(s.buf, v) }

// Bytes adds bytes.
func (s *State) Bytes(b []byte) {
	s.Word(uint64(len(b)))
	s.buf = append(s.buf, b...)
}

// Add adds all that v, a pointer, refers to.
func (s *State) Add(v any) { s.value(reflect.ValueOf(v)) }

var seed = maphash.MakeSeed()

// Sum returns the hash, which is good for this process.
func (s *State) Sum() uint64 { return maphash.Bytes(seed, s.buf) }

func (s *State) flag(b bool) {
	if b {
		s.Word(1)
	} else {
		s.Word(0)
	}
}

func (s *State) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		s.flag(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		s.Word(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		s.Word(v.Uint())
	case reflect.String:
		s.Bytes([]byte(v.String()))
	case reflect.Pointer:
		s.pointer(v)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			s.Bytes(v.Bytes())
			return
		}
		s.Word(uint64(v.Len()))
		for i := range v.Len() {
			s.value(v.Index(i))
		}
	case reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 && v.CanAddr() {
			s.Bytes(v.Bytes())
			return
		}
		for i := range v.Len() {
			s.value(v.Index(i))
		}
	case reflect.Map:
		s.mapped(v)
	case reflect.Struct:
		for _, f := range s.rules.plan(v.Type()) {
			switch x := v.Field(f.index); {
			case f.when != nil && !f.when(v):
			case f.time:
				s.Word(uint64(max(x.Int()-s.now, -f.back)))
			default:
				s.value(x)
			}
		}
	case reflect.Func:
		s.flag(v.IsNil())
	default:
		panic("schedules: a " + v.Kind().String() + " is no state")
	}
}

func (s *State) pointer(v reflect.Value) {
	if v.IsNil() {
		s.Word(0)
		return
	}
	r := reference{v.Pointer(), v.Type()}
	n, ok := s.seen[r]
	if !ok {
		n = uint64(len(s.seen) + 1)
		s.seen[r] = n
	}
	s.Word(n)
	if !ok {
		s.value(v.Elem())
	}
}

func (s *State) mapped(v reflect.Value) {
	s.Word(uint64(v.Len()))
	type entry struct {
		key   []byte
		value reflect.Value
	}
	var all []entry
	for it := v.MapRange(); it.Next(); {
		k := State{rules: s.rules, now: s.now, seen: map[reference]uint64{}}
		k.value(it.Key())
		all = append(all, entry{k.buf, it.Value()})
	}
	slices.SortFunc(all, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
	for _, e := range all {
		s.Bytes(e.key)
		s.value(e.value)
	}
}

// plan is made once for each type: looking names up for each state would take most of the time.
func (r *Rules) plan(t reflect.Type) []fieldPlan {
	if p, ok := r.plans[t]; ok {
		return p
	}
	p := []fieldPlan{}
	for i := range t.NumField() {
		name := t.Name() + "." + t.Field(i).Name
		if r.Skip[name] || t.Field(i).Name == "_" {
			continue
		}
		back, isTime := r.Times[name]
		p = append(p, fieldPlan{i, isTime, back, r.When[name]})
	}
	r.plans[t] = p
	return p
}
