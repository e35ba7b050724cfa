package suites

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goroce/goroce/conformance/lab"
)

// imb are Intel's MPI benchmarks, built to check what they receive. It needs what mpi needs.
func imb() Suite {
	return Suite{
		Name: "imb",
		About: "Intel's MPI benchmarks with their check of all that is received (`-DCHECK`): messages and collectives (`MPI1`), collectives that do not block (`NBC`), " +
			"one-sided communication (`EXT`, `RMA`), with MPICH 4.0.2 and Open MPI 4.1.4 over UCX 1.13.1 as the suite mpi has them. All in four processes, of which " +
			"some benchmarks use two",
		Package: "intel/mpi-benchmarks", Version: "2021.11", Share: 10,
		Archive: "https://github.com/intel/mpi-benchmarks/archive/refs/tags/IMB-v2021.11.tar.gz",
		Needs:   append([]lab.Need{{What: "curl", Package: "curl"}, {What: "g++", Package: "g++"}}, mpi().Needs...),
		Build: `for mpi in mpich openmpi; do
	mkdir $mpi
	cp -r src_c src_cpp $mpi
	for part in MPI1 NBC EXT RMA; do
		make -C $mpi/src_cpp TARGET=$part CC=mpicc.$mpi CXX=mpicxx.$mpi CPPFLAGS="-DCHECK -DOMPI_SKIP_MPICXX"
	done
done
`,
		Run: runIMB,
	}
}

// imbParts are the programs, with the benchmarks that each runs if none is named.
var imbParts = []struct{ name, benchmarks string }{
	{"MPI1", "PingPong PingPing Sendrecv Exchange Allreduce Reduce Reduce_local Reduce_scatter Reduce_scatter_block Allgather Allgatherv Gather Gatherv " +
		"Scatter Scatterv Alltoall Alltoallv Bcast Barrier"},
	{"NBC", "Ibcast Iallgather Iallgatherv Igather Igatherv Iscatter Iscatterv Ialltoall Ialltoallv Ireduce Ireduce_scatter Iallreduce Ibarrier"},
	{"EXT", "Window Unidir_Get Unidir_Put Bidir_Get Bidir_Put Accumulate"},
	{"RMA", "Unidir_put Unidir_get Bidir_put Bidir_get One_put_all One_get_all All_put_all All_get_all Put_local Put_all_local Exchange_put Exchange_get " +
		"Accumulate Get_accumulate Fetch_and_op Compare_and_swap"},
}

func runIMB(ctx context.Context, t *Turn) error {
	for _, of := range []string{"mpich", "openmpi"} {
		for _, part := range imbParts {
			for _, b := range strings.Fields(part.benchmarks) {
				name := of + ": " + part.name + " " + b
				if !t.asked(name) {
					continue
				}
				r := t.imbRun(ctx, of, part.name, b)
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				r.Test = name
				t.Report(r)
			}
		}
	}
	return nil
}

// imbRun runs a benchmark in four processes, with messages from nothing to 64 KiB, ten of each, for
// which it may take a minute and not 10 s, as the processes poll.
func (t *Turn) imbRun(ctx context.Context, of, part, benchmark string) (r Result) {
	program := filepath.Join(t.Dir, of, "src_cpp", "IMB-"+part)
	if _, err := os.Stat(program); err != nil {
		return Result{Outcome: Skip, Detail: "it has not been built"}
	}
	said, err := t.mpiStart(ctx, of, "4", program, "-npmin", "4", "-iter", "10", "-msglog", "0:16",
		"-time", "60", benchmark)
	r.Outcome, r.Detail = imbVerdict(said, err)
	return r
}

// imbEnd is the last that a benchmark says.
const imbEnd = "All processes entering MPI_Finalize"

// imbVerdict says what a benchmark has come to. The last column of its table is how wrong the data
// are; those that move none, and Window, have no such column.
func imbVerdict(said string, end error) (Outcome, string) {
	if end != nil {
		return Fail, oneLine(strings.ReplaceAll(end.Error(), "\n", " ") + ": " + said)
	}
	if !strings.Contains(said, imbEnd) {
		return Fail, oneLine("it does not come to its end: " + said)
	}
	checks := false
	for line := range strings.Lines(said) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
			checks = false
		case checks && strings.Contains(line, "time-out."):
			return Fail, oneLine("a size took longer than it may: " + line)
		case f[len(f)-1] == "defects":
			checks = true
		case checks:
			if wrong, err := strconv.ParseFloat(f[len(f)-1], 64); err != nil || wrong != 0 {
				return Fail, oneLine("wrong data: " + line)
			}
		}
	}
	return Pass, ""
}
