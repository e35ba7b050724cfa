package run

import "strings"

// Variables that the libraries read, and that say where they are.
const (
	addrVar    = "GOROCE_ADDR"
	linkVar    = "GOROCE_LINK"
	pollingVar = "GOROCE_POLLING"
	statVar    = "GOROCE_STAT"
	libVar     = "GOROCE_VERBS_LIB"
	// sysfsVar tells the hook what to put into the files that answer for those below
	// /sys/class/infiniband.
	sysfsVar = "GOROCE_SYSFS"

	libraryPathVar = "LD_LIBRARY_PATH"
	preloadVar     = "LD_PRELOAD"
	asanVar        = "ASAN_OPTIONS"

	asanOrder = "verify_asan_link_order=0"
)

// environ is an environment as execve takes it.
type environ struct{ list []string }

func parseEnviron(list []string) *environ { return &environ{list: append([]string(nil), list...)} }

// get returns the first value of a variable, as getenv does.
func (e *environ) get(name string) string {
	for _, kv := range e.list {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v
		}
	}
	return ""
}

// set sets a variable, and drops other values that it may have.
func (e *environ) set(name, value string) {
	kept := e.list[:0]
	for _, kv := range e.list {
		if k, _, _ := strings.Cut(kv, "="); k != name {
			kept = append(kept, kv)
		}
	}
	e.list = append(kept, name+"="+value)
}
