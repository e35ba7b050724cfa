package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
)

// profileEnv in the environment names a file for a CPU profile of the process: where somebody else
// starts the tool, in another machine or namespace, that is the way in.
const profileEnv = "GOROCE_CPUPROFILE"

// profiled runs a tool and returns its exit status. If file is not "" a CPU profile of it is there
// afterwards. That there can be none is said, and no failure of the tool.
func profiled(file string, stderr io.Writer, run func() int) int {
	if file == "" {
		return run()
	}
	complain := func(err error) {
		if err != nil {
			fmt.Fprintf(stderr, "roce: %s: %v\n", profileEnv, err)
		}
	}
	f, err := os.Create(file)
	if err == nil {
		if err = pprof.StartCPUProfile(f); err != nil {
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		complain(err)
		return run()
	}
	status := run()
	pprof.StopCPUProfile()
	complain(f.Close())
	return status
}
