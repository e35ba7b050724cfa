// Package schedules plays small programs under every schedule. It is for tests of code that has no
// clock, goroutine or source of randomness of its own: what such code does next depends on its
// state alone, so a state that was met before need not be entered again.
//
// [Explore] searches depth first. It asks a [World] what can happen next, does one of these, and
// comes back for the others by playing the same schedule in a new world: a world needs no copy.
// What bounds the search is in the world, as a budget of faults.
//
// [State] names a state. It walks a structure by reflection, so that a field that is added to the
// code under test is part of the state without anybody's doing.
package schedules
