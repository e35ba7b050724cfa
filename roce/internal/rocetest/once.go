package rocetest

import (
	"regexp"
	"strings"
	"testing"
)

var address = regexp.MustCompile(`\[[0-9a-f:%a-z]+\]:\d+|\d+\.\d+\.\d+\.\d+(:\d+)?`)

// SaysOnce fails if the text of an error names an operation, a reason or an address twice, or the
// package behind its beginning.
func SaysOnce(t testing.TB, err error) {
	t.Helper()
	text := err.Error()
	said := strings.Split(text, ": ")
	said = append(said, address.FindAllString(text, -1)...)
	if op := strings.Fields(said[min(1, len(said)-1)]); len(op) > 1 {
		said = append(said, op[0]) // the operation before an address
	}
	seen := map[string]bool{}
	for i, s := range said {
		if seen[s] || i > 0 && s == "roce" {
			t.Errorf("says %q twice: %v", s, text)
		}
		seen[s] = true
	}
}
