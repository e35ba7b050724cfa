package perdevice

import (
	"runtime"
	"sync"
	"weak"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/verbs"
)

// Table has one T for each device in use. An entry goes when its device is closed, or when nothing refers to
// the device any more. The zero Table is empty.
type Table[T any] struct {
	mu sync.Mutex
	m  map[weak.Pointer[verbs.Device]]*T
}

// Of returns the entry of a device. The first call for a device makes it, by make.
func (t *Table[T]) Of(d *verbs.Device, make func() *T) *T {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := weak.Make(d)
	if v := t.m[k]; v != nil {
		return v
	}
	if t.m == nil {
		t.m = map[weak.Pointer[verbs.Device]]*T{}
	}
	// An entry may refer to its device, as connections do, and then the collector never takes
	// either of them. So what belongs to closed devices goes here.
	for k := range t.m {
		if d := k.Value(); d == nil || over(d) {
			delete(t.m, k)
		}
	}
	v := make()
	t.m[k] = v
	runtime.AddCleanup(d, t.forget, k)
	return v
}

// over reports whether a device is closed, or was never opened.
func over(d *verbs.Device) bool {
	s := access.Shard(d)
	return s == nil || s.Closed()
}

func (t *Table[T]) forget(k weak.Pointer[verbs.Device]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.m, k)
}
