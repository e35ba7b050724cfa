package suites

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goroce/goroce/conformance/lab"
)

// mpi are MPICH's tests, with MPICH and with Open MPI of this machine's Debian. Both use UCX. All
// processes are at one address, and no shared memory is offered to them.
func mpi() Suite {
	return Suite{
		Name: "mpi",
		About: "MPICH's tests of messages (`pt2pt`), collectives (`coll`) and one-sided communication (`rma`), with MPICH 4.0.2 and with Open MPI 4.1.4, over UCX 1.13.1: those that " +
			"have a file of their own, need no generated data types, and want two to four processes. `UCX_TLS=rc_verbs,ud_verbs,self`; on \"nothing\" `tcp,self`",
		Package: "mpich", Version: "4.0.2-3", Release: "bookworm", Share: 15,
		Needs: []lab.Need{
			{What: "/usr/include/x86_64-linux-gnu/mpich/mpi.h", Package: "libmpich-dev"},
			{What: "/usr/lib/x86_64-linux-gnu/openmpi/include/mpi.h", Package: "libopenmpi-dev"},
			{What: "mpiexec.mpich", Package: "mpich"}, {What: "mpirun.openmpi", Package: "openmpi-bin"},
			{What: "python3", Package: "python3-minimal"},
		},
		// What does not compile with one of them is not there, and is reported as skipped.
		Build: `for mpi in mpich openmpi; do
	mkdir $mpi
	cd $mpi
	MPICC=mpicc.$mpi ../test/mpi/configure --disable-fortran --disable-cxx --disable-spawn --disable-ft-tests --disable-threads --disable-dtpools
	make -C util libmtest_single.la
	cd ..
done
for dir in pt2pt coll rma; do
	while read -r program np rest; do
		case "$program $rest" in '#'* | *env=* | *mem=* | *xfail=*) continue ;; esac
		case "$np" in 2 | 3 | 4) ;; *) continue ;; esac
		source=test/mpi/$dir/$program.c
		[ -f $source ] && ! grep -q DTP_ $source || continue
		echo $dir/$program $np $rest >>tests
		for mpi in mpich openmpi; do
			[ -x $mpi/$dir/$program ] || mpicc.$mpi -g -O1 -w -I$mpi/include -Itest/mpi/include $source $mpi/util/.libs/libmtest_single.a -o $mpi/$dir/$program || true
		done
	done <mpich/$dir/testlist
done
`,
		GuestPackages: []string{"coreutils", "dash", "ibverbs-providers", "libucx0", "mpich", "openmpi-bin"},
		Run:           runMPI, RunInGuest: builtInGuest(runMPI),
	}
}

// mpiLimit is for one test: nonblocking3, with 100,000 collectives of processes that all poll,
// takes 150 s on two processors at a load of 25.
const mpiLimit = 15 * time.Minute

// mpiEnv is for all: Open MPI refuses to be root's else. Debian's UCX would warn of the last.
var mpiEnv = []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "MPIR_CVAR_NOLOCAL=1",
	"MPITEST_RETURN_WITH_CODE=yes", "UCX_WARN_UNUSED_ENV_VARS=n"}

// mpiCommand is how each starts processes.
var mpiCommand = map[string]string{
	"mpich":   "mpiexec.mpich -n",
	"openmpi": "mpirun.openmpi --oversubscribe --mca pml ucx --mca osc ucx --mca pml_ucx_tls any --mca pml_ucx_devices any --mca btl ^openib,ofi,uct --mca mpi_yield_when_idle 1 -n",
}

func runMPI(ctx context.Context, t *Turn) error {
	list, err := os.ReadFile(filepath.Join(t.Dir, "tests"))
	if err != nil {
		return err
	}
	for _, of := range []string{"mpich", "openmpi"} {
		for line := range strings.Lines(string(list)) {
			f := strings.Fields(line)
			test, err := mpiTest(of, f)
			if err != nil {
				return err
			}
			// Processes that poll take turns on a guest's one processor.
			if t.Site.guest != nil && test.np != "2" || !t.asked(test.name) {
				continue
			}
			r := t.mpiRun(ctx, of, test)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			t.Report(r)
		}
	}
	return nil
}

// mpiCase is a line of a list of tests.
type mpiCase struct {
	name, program, np string
	args              []string
}

func mpiTest(of string, f []string) (c mpiCase, err error) {
	if len(f) < 2 {
		return c, fmt.Errorf("a line of the list of tests: %q", f)
	}
	c.program, c.np = f[0], f[1]
	for _, w := range f[2:] {
		if a, ok := strings.CutPrefix(w, "arg="); ok {
			c.args = append(c.args, a)
		}
	}
	c.name = strings.Join(append([]string{of + ": " + c.program}, c.args...), " ") + " (" + c.np + ")"
	return c, nil
}

func (t *Turn) mpiRun(ctx context.Context, of string, c mpiCase) Result {
	r := Result{Test: c.name, Outcome: Skip, Detail: "it does not compile with this MPI"}
	program := filepath.Join(t.Dir, of, c.program)
	if _, err := os.Stat(program); err != nil {
		return r
	}
	r.Outcome, r.Detail = mpiVerdict(t.mpiStart(ctx, of, append([]string{c.np, program}, c.args...)...))
	return r
}

// mpiStart runs a program, whose number of processes, path and arguments follow, and returns what
// it has said.
func (t *Turn) mpiStart(ctx context.Context, of string, args ...string) (string, error) {
	// Open MPI's own folder is of a user ID, which in a user namespace is root's.
	dir, err := os.MkdirTemp("", "mpi-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := t.Site.Bring(ctx, dir, args[1]); err != nil {
		return "", err
	}
	env := append(mpiEnv[:len(mpiEnv):len(mpiEnv)], "OMPI_MCA_orte_tmpdir_base="+dir)
	if t.Site.On == OnNothing {
		env = append(env, "UCX_TLS=tcp,self")
	} else {
		env = append(env, "UCX_TLS=rc_verbs,ud_verbs,self", "UCX_NET_DEVICES="+t.Site.Dev()+":1")
	}
	if t.Site.guest != nil {
		// UCX looks a datagram's destination up as the kind of address that the service level of
		// its completion tells, as NVIDIA's cards have it. rxe leaves that at 0: UCX drops all.
		env = append(env, "UCX_UD_VERBS_ETH_DGID_CHECK=n")
	}
	var said strings.Builder
	err = t.Site.Run(ctx, 0, Command{
		Dir: filepath.Dir(args[1]), Env: env, Argv: append(strings.Fields(mpiCommand[of]), args...),
		OnLine: func(line string) { said.WriteString(line) }, Limit: mpiLimit,
	})
	return said.String(), err
}

// mpiVerdict says what a test has come to: it has to say that there are no errors, and to end well.
func mpiVerdict(said string, end error) (Outcome, string) {
	if end == nil && strings.Contains(said, "No Errors") {
		return Pass, ""
	}
	if end == nil {
		end = errors.New("it does not say that there are no errors")
	}
	return Fail, oneLine(strings.ReplaceAll(end.Error(), "\n", " ") + ": " + said)
}
