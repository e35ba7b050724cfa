// Package mem: placeholder so that package transport compiles; the file goes
// away when the package lands.
package mem

type (
	Table  struct{}
	PD     struct{}
	Region struct{}
	Window struct{}
	Access uint32
)
