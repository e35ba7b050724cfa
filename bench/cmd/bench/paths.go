package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/goroce/goroce/bench/paths"
	"github.com/goroce/goroce/bench/suite"
)

// itemPaths is an item that is a run of its own, and pathsDir where its report is.
const (
	itemPaths = "paths"
	pathsDir  = "docs/bench/paths"
)

// pathTimes are how long a round of paths runs before it counts, and how long it counts, unless -ms
// says so.
const (
	pathWarm = time.Second
	pathTime = 3 * time.Second
)

// overPaths measures over links that are not perfect.
func overPaths(dir string, only *regexp.Regexp, rounds, ms int) error {
	suite.Enter()
	o := paths.Options{
		Only: only, Rounds: rounds, Warm: pathWarm, Time: pathTime, Seed: 1,
		Logf: func(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...) },
	}
	if ms > 0 {
		o.Time = time.Duration(ms) * time.Millisecond
	}
	quic, err := buildQUIC()
	if err != nil {
		o.Logf("quic-go is not measured: %v", err)
	} else {
		defer os.RemoveAll(filepath.Dir(quic))
		o.QUIC = quic
	}
	r := paths.Report{Runs: []paths.Ran{{Command: command(), Warm: o.Warm, Time: o.Time}}}
	watch, err := suite.Watch(&r.Runs[0].Machine)
	if err != nil {
		return err
	}
	err = paths.Run(o, r.Add)
	watch.Done(0)
	if werr := r.Write(dir, only != nil); err == nil {
		err = werr
	}
	return err
}

// buildQUIC builds the program of bench/apps, which is a module of its own.
func buildQUIC() (program string, err error) {
	dir, err := os.MkdirTemp("", "goroce-quic-")
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, "quic")
	cmd := exec.Command("go", "build", "-o", program, "./cmd/quic")
	cmd.Dir = "bench/apps"
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
}
