// Command core is the Go half of the verbs libraries: it is built as libgoroce.so
// (-buildmode=c-shared), and libibverbs.so.1 and librdmacm.so.1 load it when a program opens the
// first device.
//
// The contract with the C half is ../include/goroce_core.h: a table of functions (table.c), each of
// which is an exported function here, and handles that name objects (handles.go). A file holds the
// functions of one kind of object.
//
// The process belongs to somebody else: nothing here may panic because of what the program passes,
// write to the standard streams beyond one line that says why a device cannot be opened, or leave
// signal handlers behind. os/signal is not imported.
//
// Goroutines are not preempted by signals, since SIGURG is the program's: the Makefile links it
// with asyncpreemptoff, which //go:debug does not know.
package main

import "C"

import "github.com/goroce/goroce/roce/link/udp"

func main() {}

// goroce_started does nothing: after a call of it the runtime has begun.
//
//export goroce_started
func goroce_started() {}

//export goroce_disown
func goroce_disown() {
	if err := udp.Disown(); err != nil {
		remark("what the parent of this process has had stays taken: %v", err)
	}
}
