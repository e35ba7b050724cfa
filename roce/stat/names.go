package stat

import (
	"reflect"
	"slices"

	"github.com/goroce/goroce/roce/verbs"
)

// counterNames are the names of the fields of verbs.Counters, in their order: first those of
// rdma_rxe in /sys/class/infiniband/*/ports/1/hw_counters, then those that it lacks.
var counterNames = []string{
	"sent_pkts", "rcvd_pkts", "duplicate_request", "out_of_seq_request", "rcvd_rnr_err", "send_rnr_err",
	"rcvd_seq_err", "ack_deferred", "retry_exceeded_err", "retry_rnr_exceeded_err", "completer_retry_err",
	"send_err", "link_downed", "rdma_sends", "rdma_recvs", "sent_bytes", "rcvd_bytes",

	"retransmitted_pkts", "selective_repeats", "spurious_repeats", "timeouts", "loss_probes", "implied_naks",
	"sent_seq_naks", "ce_marked_pkts", "cnps_sent", "cnps_handled", "rate_cuts", "pacing_holds", "coalesced_acks",
	"far_ahead_request", "kept_ahead", "kept_in_turn", "cut_reads", "memory_faults", "lost_async_events",
	"drop_malformed", "drop_opcode", "drop_no_qp", "drop_qp_type", "drop_state", "drop_address", "drop_pkey",
	"drop_qkey", "drop_icrc", "drop_cnp", "drop_uc_gap", "drop_no_recv", "drop_access", "drop_bad_response",
}

// CounterNames returns the names of all counters in their order: first those of rdma_rxe's
// hw_counters, then those that it lacks.
func CounterNames() []string { return slices.Clone(counterNames) }

// countersOf returns the counters by name.
func countersOf(c verbs.Counters) map[string]uint64 {
	v := reflect.ValueOf(c)
	out := make(map[string]uint64, v.NumField())
	for i := range v.NumField() {
		out[counterNames[i]] = v.Field(i).Uint()
	}
	return out
}
