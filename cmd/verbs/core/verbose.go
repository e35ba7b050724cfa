package main

import (
	"os"
	"sync"
)

// verbose reports whether GOROCE_VERBOSE asks for remarks: a script, or a test, that starts a
// server and then its clients has to know when the server listens, which most programs do not say.
var verbose = sync.OnceValue(func() bool {
	v := os.Getenv("GOROCE_VERBOSE")
	return v != "" && v != "0"
})

// remark says something that is no error, where that is asked for.
func remark(format string, args ...any) {
	if verbose() {
		say(format, args...)
	}
}
