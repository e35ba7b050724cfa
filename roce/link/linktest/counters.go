package linktest

import (
	"reflect"

	"github.com/goroce/goroce/roce/link"
)

// countersOf returns a function that says by how much the counters of a link have grown.
func countersOf(l link.Link) func() link.Stats {
	before := l.Stats()
	return func() link.Stats {
		now := l.Stats()
		v, b := reflect.ValueOf(&now).Elem(), reflect.ValueOf(before)
		for i := range v.NumField() {
			v.Field(i).SetUint(v.Field(i).Uint() - b.Field(i).Uint())
		}
		return now
	}
}
