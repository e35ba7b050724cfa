// Package core is the way beneath the objects of roce/verbs, roce/rdmacm and roce/rsocket, for the
// packages of this repository that are built on them: cmd/verbs, which gives them to programs in C,
// and the packages below roce. What these need is no business of other programs, and so is not
// exported by the objects.
//
// Each such object has a method Core. What that returns has no field and no method; Open opens it,
// and nobody else can import this package.
package core

// Of is what is beneath an object. T has the methods.
type Of[T any] struct{ in T }

// New makes the value that a method Core returns.
func New[T any](in T) Of[T] { return Of[T]{in} }

// Open returns what is beneath an object.
func Open[T any](o interface{ Core() Of[T] }) T { return o.Core().in }

// Readiness is what further calls on an rsocket, or a datagram socket, would find.
type Readiness struct {
	Readable bool // TryRead has data, the end of the data, or an error
	Writable bool // TryWrite has room, or an error
	// Over: nothing can be read or written any more, but for data that has come already.
	Over bool
	// Err is why, if that was not by the will of either side.
	Err error
	// Drained: the peer's adapter has all that was written, or will never have it.
	Drained bool
}

// Sleeper is a thread of a program in C, or several, that sleeps until a descriptor can be read,
// and then calls Glance of those that have lent it their seat.
type Sleeper interface {
	// Thread says which thread that is, by its number, of several the last that has received; 0 if
	// it is not known yet.
	Thread() int
	// Watch has it sleep on other descriptors, too, until Forget, and reports whether it will.
	Watch(l Lender, fds []int) bool
	Forget(l Lender)
	// Inside reports whether it waits inside a call that receives, and does nothing else meanwhile.
	// Of several one then receives for all.
	Inside() bool
	// Idle reports whether nothing has come that it could read.
	Idle() bool
	// Busy returns how many answers may be posted soon: of threads that wait inside, those to what
	// they were woken for, until they come to wait again.
	Busy() int
}

// Lender is a shard that has lent its seat. Glance receives. Recall takes the seat back, and does
// not call the Sleeper afterwards.
type Lender interface {
	Glance()
	Recall()
	// Await is Glance for a thread that is inside a call which waits. It goes on until done, or
	// until sleep pays; slept says that the thread has just slept.
	Await(done func() bool, slept bool)
}
