package matrix

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/roce/analyse"
)

// scenario is one error scenario, named as in datenlord/roce-sim where that has it, so
// that results compare.
type scenario struct {
	name      string
	authority string
	adjust    func(*params)
	// run returns what was seen, for the row's detail.
	run func(x *trial) string
}

var scenarios = []scenario{
	{"success_send", "IBTA 9.7", nil, succeeds(peer.OpSend, faultSize)},
	{"success_write", "IBTA 9.7", nil, succeeds(peer.OpWrite, faultSize)},
	{"success_write_imm", "IBTA 9.7", nil, succeeds(peer.OpWriteImm, faultSize)},
	{"success_read", "IBTA 9.7", nil, succeeds(peer.OpRead, faultSize)},
	{"success_atomic_cas", "IBTA 9.7", nil, succeeds(peer.OpCmpSwap, 8)},

	{"rkey_violation write", "IBTA 9.7.5.2.4: remote access error", nil, wrongKey(peer.OpWrite)},
	{"rkey_violation read", "IBTA 9.7.5.2.4: remote access error", nil, wrongKey(peer.OpRead)},
	{"rkey_violation atomic", "IBTA 9.7.5.2.4: remote access error", nil, wrongKey(peer.OpFetchAdd)},
	{"rkey_violation beyond_the_end", "IBTA 9.7.5.2.4: remote access error", nil, beyondEnd},
	{"rkey_violation no_write_permission", "IBTA 9.7.5.2.4: remote access error", nil, noPermission},
	{"misaligned_atomic", "IBTA 9.4.5.1; NAK code seen on rxe 6.1, 6.12", nil, misalignedAtomic},

	{"rnr_nak_retry_limit_exceeded", "IBTA 9.7.5.2.8",
		func(p *params) { patient(p); p.rnrRetry = shortRetry }, rnrExceeded},
	{"rnr_nak_retry_limit_not_exceeded", "IBTA 9.7.5.2.8", func(p *params) { p.rnrRetry = 7 }, rnrNotExceeded},

	{"psn_retry_limit_exceeded", "IBTA 9.9.2.1", tense,
		exceeded(peer.OpSend, reqMiddle)},
	{"psn_retry_limit_not_exceeded", "IBTA 9.9.2.1", spare,
		notExceeded(peer.OpSend, reqMiddle, shortRetry)},
	{"local_ack_timeout_retry_limit_exceeded", "IBTA 9.7.6.1.3", tense,
		exceeded(peer.OpSend, reqLast)},
	{"local_ack_timeout_retry_limit_not_exceeded", "IBTA 9.7.6.1.3", spare,
		notExceeded(peer.OpSend, reqLast, shortRetry)},
	{"lost_ack_retry_limit_exceeded", "IBTA 9.7.6.1.3", tense,
		exceeded(peer.OpWrite, ack)},
	{"implied_nak_sequence_error_retry_limit_exceeded", "IBTA 9.7.5.2.7", tense,
		exceeded(peer.OpRead, rspMiddle)},
	{"implied_nak_sequence_error_retry_limit_not_exceeded", "IBTA 9.7.5.2.7", spare,
		notExceeded(peer.OpRead, rspMiddle, shortRetry)},

	{"write_partial_retry", "IBTA 9.9.2.1.1", patient, partialWrite},
	{"read_partial_retry", "IBTA 9.7.5.2.7", patient, partialRead},
	{"ghost_ack", "IBTA 9.7.6.1: acknowledges nothing that was sent", nil, ghostAck},
	{"bad_response", "IBTA 9.9.2.1; status as rxe 6.1, 6.12 or the specification", nil, badResponse},
	{"unexpected_opcode", "IBTA 9.7.4.1.3: invalid request", nil, unexpectedOpcode},
	{"remote_operation_err", "IBTA 9.7.5.2.5", nil, remoteOperation},
	{"receive_buffer_too_short",
		"IBTA 9.7.4.1.7 says invalid request, rxe 6.1 and 6.12 say remote operational error", nil, tooShort},
}

// blindScenarios begin the names of those that do nothing to packets and do not look at them.
var blindScenarios = []string{"success_", "rkey_violation", "remote_operation_err", "receive_buffer_too_short"}

// errorJobs makes the rows of the error scenarios.
func (e *Env) errorJobs(r role) (jobs []job) {
	families := []peer.Family{peer.V4}
	if e.Full {
		families = bothFamilies
	}
	for _, f := range families {
		for _, s := range scenarios {
			row := e.row("errors", s.name, r)
			row.MTU, row.Size, row.Family, row.Authority = faultMTU, faultSize, string(f), s.authority
			j := oneRow(row, func(p *pair, row *Row) error {
				return row.whileStarved(func() (err error) {
					row.Detail, err = e.oneScenario(p, s, f)
					return err
				})
			})
			j.blind = slices.ContainsFunc(blindScenarios,
				func(name string) bool { return strings.HasPrefix(s.name, name) })
			jobs = append(jobs, j)
		}
		row := e.row("errors", "ud_wrong_qkey", r)
		row.MTU, row.Size, row.Family, row.Authority = faultMTU, 1, string(f), "IBTA 9.6.1.4: dropped silently"
		j := oneRow(row, func(p *pair, _ *Row) error { return e.wrongQKey(p, f) })
		j.blind = true
		jobs = append(jobs, j)
	}
	return jobs
}

func (e *Env) oneScenario(p *pair, s scenario, f peer.Family) (string, error) {
	par := defaults(peer.RC, f, faultMTU)
	par.rnrTimer = rnrCode
	if s.adjust != nil {
		s.adjust(&par)
	}
	c, err := p.connect(par)
	if err != nil {
		return "", err
	}
	defer c.close()
	x := watched(c)
	defer x.end()
	detail := ""
	if err := peer.Steps(func() { detail = s.run(x) }); err != nil {
		return "", c.excuse(fmt.Errorf("%w\n%s", err, x.tr.Tail(50)), x.tr)
	}
	return detail, x.checkICRC()
}

func succeeds(op peer.Opcode, size int) func(*trial) string {
	return func(x *trial) string { x.transfer(op, size); return "" }
}

// checkICRC looks at what either side has sent, before any rule.
func (x *trial) checkICRC() error {
	for i, s := range []*side{x.req, x.rsp} {
		r, err := x.analysed(x.v, i, analyse.Conduct{})
		if err != nil {
			return err
		}
		r.Breaches = slices.DeleteFunc(r.Breaches, func(b analyse.Breach) bool { return b.Rule != analyse.RuleICRC })
		if err := breaches(s.p.Name(), r); err != nil {
			return err
		}
	}
	return nil
}
