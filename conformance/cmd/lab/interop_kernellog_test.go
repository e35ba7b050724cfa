package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/matrix"
)

// The warning that a drill makes rxe 6.1 log is named, and does not fail a run that plays the
// drills against that kernel. It fails every other run, and so does every other complaint.
func TestKernelResult(t *testing.T) {
	const (
		warning = "[  181.2] WARNING: CPU: 0 PID: 0 at drivers/infiniband/sw/rxe/rxe_comp.c:756 rxe_completer+0x86c/0xd60 [rdma_rxe]"
		other   = "[  182.0] WARNING: CPU: 0 PID: 0 at drivers/infiniband/sw/rxe/rxe_comp.c:757 rxe_completer+0x870/0xd60 [rdma_rxe]"
		trace   = "[  181.3] Call Trace:"
		oops    = "[  183.0] Oops: 0000 [#1] at drivers/infiniband/sw/rxe/rxe_comp.c:756 rxe_completer+0x86c/0xd60 [rdma_rxe]"
	)
	seen := lab.Trouble{warning, trace}
	all, some, own := &runner{conform: true}, &runner{conform: true, only: "drills,micro"}, &runner{only: "drills"}
	for _, c := range []struct {
		about   string
		run     *runner
		version string
		log     []lab.Trouble
		want    matrix.Result
		detail  string
	}{
		{"nothing", all, "6.1", nil, matrix.Pass, ""},
		{"the drills on 6.1", all, "6.1", []lab.Trouble{seen}, matrix.Pass,
			"known of the drill req_nak_in_read: " + warning},
		{"the drills among others", some, "6.1", []lab.Trouble{seen}, matrix.Pass,
			"known of the drill req_nak_in_read: " + warning},
		{"another kernel", all, "6.12", []lab.Trouble{seen}, matrix.Fail, warning + "\n" + trace},
		{"without the drills", &runner{conform: true, only: "micro"}, "6.1", []lab.Trouble{seen}, matrix.Fail,
			warning + "\n" + trace},
		{"not by the command that has drills", own, "6.1", []lab.Trouble{seen}, matrix.Fail, warning + "\n" + trace},
		{"another line", all, "6.1", []lab.Trouble{{other}}, matrix.Fail, other},
		{"no warning", all, "6.1", []lab.Trouble{{oops}}, matrix.Fail, oops},
		{"a trace by itself", all, "6.1", []lab.Trouble{{trace}}, matrix.Fail, trace},
		{"another one besides", all, "6.1", []lab.Trouble{seen, {other}}, matrix.Fail,
			other + "\nknown of the drill req_nak_in_read: " + warning},
	} {
		result, detail := kernelResult(c.log, c.run.knownWarnings(c.version))
		require.Equal(t, c.want, result, c.about)
		require.Equal(t, c.detail, detail, c.about)
	}
}
