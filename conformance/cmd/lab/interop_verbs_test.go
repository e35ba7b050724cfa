package main

import (
	"slices"
	"strings"
	"testing"
)

func TestOnDevice(t *testing.T) {
	for in, want := range map[string]string{
		"-s 64 -g 1 -m 1024":   "-s 64 -d goroce1 -g 0 -m 1024",
		"-F -x 0 10.0.0.1":     "-F -d goroce0 -x 0 10.0.0.1",
		"-s SERVER -c 3":       "-s SERVER -c 3",
		"-x":                   "-x", // the program will say what is missing
		"-g 0 -x 1 -p 18515 h": "-d goroce0 -g 0 -d goroce1 -x 0 -p 18515 h",
	} {
		if got := onDevice(strings.Fields(in)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}
