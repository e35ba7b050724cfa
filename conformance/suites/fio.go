package suites

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// fio is its ioengine rdma between two processes: RDMA WRITE and READ, and SEND, whose data the
// receiver verifies.
func fio() Suite {
	return Suite{
		Name: "fio",
		About: "fio with `--ioengine=rdma`, a server and a client, as its `examples/rdmaio-*.fio` have them. By SEND the server verifies what it gets (`--verify`): " +
			"each block has a header with its offset, and a checksum. Of WRITE and READ fio has no such check",
		Package: "fio", Version: "3.33-3", Release: "bookworm", Share: 10,
		Packages:   []string{"fio", "librdmacm1", "ibverbs-providers", "coreutils"},
		Run:        func(ctx context.Context, t *Turn) error { return runFIO(ctx, t, t.newLibraryBench) },
		RunInGuest: inGuest(runFIO),
	}
}

// fioRow is one test: what client and server have in common, and what each has alone.
type fioRow struct{ both, client, server string }

func (r fioRow) name() string {
	verb, options, _ := strings.Cut(strings.TrimPrefix(r.client, "--verb="), " ")
	return verb + ": " + options + " " + r.both + ", server " + r.server
}

func fioRows() (rows []fioRow) {
	sizes := map[string]string{"1k": "64k", "4k": "256k", "64k": "4m", "1m": "64m"}
	for _, bs := range []string{"1k", "4k", "64k", "1m"} {
		both := fmt.Sprintf("--bs=%s --size=%s", bs, sizes[bs])
		for _, verb := range []string{"write", "read"} {
			for _, depth := range []string{"1", "4", "16", "128"} {
				rows = append(rows, fioRow{both, "--verb=" + verb + " --iodepth=" + depth, "--iodepth=16"})
			}
		}
		for _, v := range []string{"crc32c", "md5", "sha256", "pattern --verify_pattern=0x5a"} {
			rows = append(rows,
				fioRow{both + " --verify=" + v, "--verb=send --do_verify=0 --iodepth=1", "--iodepth=64"})
		}
	}
	for _, more := range []string{"--thread", "--mem=mmap", "--mem=shm", "--iomem_align=4k",
		"--refill_buffers", "--zero_buffers"} {
		rows = append(rows, fioRow{"--bs=64k --size=4m " + more, "--verb=write --iodepth=16", "--iodepth=16"},
			fioRow{"--bs=64k --size=4m " + more, "--verb=read --iodepth=16", "--iodepth=16"})
	}
	for _, more := range []string{"--rate=1m", "--iodepth_batch=8", "--iodepth_batch_complete=8",
		"--bsrange=4k-64k", "--loops=3"} {
		rows = append(rows, fioRow{"--bs=64k --size=1m", "--verb=write --iodepth=16 " + more, "--iodepth=16"},
			fioRow{"--bs=64k --size=1m", "--verb=read --iodepth=16 " + more, "--iodepth=16"})
	}
	// A server refuses a client with larger blocks.
	return append(rows, fioRow{"--size=1m", "--verb=write --bs=64k --iodepth=1", "--bs=4k --iodepth=16"})
}

// fioTime is the limit for one test: it takes a second, and much longer in a guest, or where other
// programs have the processors.
const fioTime = 5 * time.Minute

func runFIO(ctx context.Context, t *Turn, open func() (bench, error)) error {
	for _, row := range fioRows() {
		if !t.asked(row.name()) {
			continue
		}
		r, err := fioPair(ctx, row, open)
		if err = errors.Join(err, context.Cause(ctx)); err != nil {
			return fmt.Errorf("%s: %w", row.name(), err)
		}
		t.Report(r)
	}
	return context.Cause(ctx)
}

// fioPair runs a server and a client. The one whose --rw is read is the server.
func fioPair(ctx context.Context, row fioRow, open func() (bench, error)) (r Result, err error) {
	r = Result{Test: row.name(), Outcome: Fail}
	on, err := open()
	if err != nil {
		return r, err
	}
	defer on.Close()
	limited, cancel := context.WithTimeout(ctx, fioTime)
	defer cancel()
	run := func(end int, text string) (process, error) {
		argv := append([]string{"fio", "--name=test", "--ioengine=rdma", "--port=7000"}, strings.Fields(text)...)
		return on.start(limited, end, argv...)
	}
	server, err := run(0, "--rw=read "+row.both+" "+row.server)
	if err != nil {
		return r, err
	}
	defer server.Kill()
	if err := server.WaitOutput(limited, "waiting for connection"); err != nil {
		r.Detail = oneLine(server.Output())
		return r, nil
	}
	client, err := run(1, "--rw=write "+row.both+" "+row.client+" --hostname="+on.addr(0).String())
	if err != nil {
		return r, err
	}
	defer client.Kill()
	for _, p := range []process{client, server} {
		select {
		case <-p.Done():
		case <-limited.Done():
		}
	}
	r.Outcome, r.Detail = fioVerdict(client.Output()+server.Output(), errors.Join(fioEnd(client), fioEnd(server)))
	return r, nil
}

// errRunning is the error of a program that has not ended.
var errRunning = errors.New("it does not end")

// fioEnd is how a program has ended.
func fioEnd(p process) error {
	select {
	case <-p.Done():
	default:
		return errRunning
	}
	err := p.Wait()
	if s := killedBy(err); s != 0 {
		return fmt.Errorf("signal %v", s)
	}
	return err
}

// fioRefusal is what fio says to blocks that are larger than the server's.
const fioRefusal = "must be greater than or equal to the client's block size"

// fioVerdict says what two programs have come to.
func fioVerdict(said string, end error) (Outcome, string) {
	if strings.Contains(said, fioRefusal) {
		return Skip, fioRefusal
	}
	if end == nil {
		return Pass, ""
	}
	var why []string
	for line := range strings.Lines(said) {
		if strings.HasPrefix(line, "fio: ") && !strings.Contains(line, "waiting for") ||
			strings.HasPrefix(line, "verify: ") {
			why = append(why, strings.TrimSpace(line))
		}
	}
	return Fail, oneLine(strings.ReplaceAll(end.Error(), "\n", ", ") + ": " + strings.Join(why, "; "))
}
