package metrics

import "github.com/goroce/goroce/roce/verbs"

// counter is one of verbs.Counters.
type counter struct {
	name, help string
	value      func(*verbs.Counters) uint64
}

// hwCounters have rdma_rxe's names in the hw_counters of its port.
var hwCounters = []counter{
	{"sent_pkts", "packets sent", func(c *verbs.Counters) uint64 { return c.SentPkts }},
	{"rcvd_pkts", "packets that passed every check", func(c *verbs.Counters) uint64 { return c.RcvdPkts }},
	{"duplicate_request", "requests received again", func(c *verbs.Counters) uint64 { return c.DuplicateRequest }},
	{"out_of_seq_request", "requests received out of sequence", func(c *verbs.Counters) uint64 { return c.OutOfSeqRequest }},
	{"rcvd_rnr_err", "RNR NAKs received", func(c *verbs.Counters) uint64 { return c.RcvdRNRErr }},
	{"send_rnr_err", "RNR NAKs sent", func(c *verbs.Counters) uint64 { return c.SendRNRErr }},
	{"rcvd_seq_err", "sequence NAKs received", func(c *verbs.Counters) uint64 { return c.RcvdSeqErr }},
	{"ack_deferred", "responses queued", func(c *verbs.Counters) uint64 { return c.AckDeferred }},
	{"retry_exceeded_err", "queue pairs that failed with WCRetryExcErr", func(c *verbs.Counters) uint64 { return c.RetryExceededErr }},
	{"retry_rnr_exceeded_err", "queue pairs that failed with WCRNRRetryExcErr", func(c *verbs.Counters) uint64 { return c.RetryRNRExceededErr }},
	{"completer_retry_err", "go-back-N started", func(c *verbs.Counters) uint64 { return c.CompleterRetryErr }},
	{"send_err", "packets that the link refused or dropped", func(c *verbs.Counters) uint64 { return c.SendErr }},
	{"link_downed", "times that the interfaces under the link went down", func(c *verbs.Counters) uint64 { return c.LinkDowned }},
	{"rdma_sends", "send work requests completed", func(c *verbs.Counters) uint64 { return c.RDMASends }},
	{"rdma_recvs", "receive work requests completed", func(c *verbs.Counters) uint64 { return c.RDMARecvs }},
	{"sent_bytes", "bytes sent, BTH through ICRC", func(c *verbs.Counters) uint64 { return c.SentBytes }},
	{"rcvd_bytes", "bytes received, BTH through ICRC", func(c *verbs.Counters) uint64 { return c.RcvdBytes }},
}

// moreCounters are the counters that rdma_rxe lacks.
var moreCounters = []counter{
	{"retransmitted_pkts", "packets sent again", func(c *verbs.Counters) uint64 { return c.RetransmittedPkts }},
	{"selective_repeats", "packets sent again because they were missing, and what was behind them was not", func(c *verbs.Counters) uint64 { return c.SelectiveRepeats }},
	{"spurious_repeats", "of selective_repeats: it came after all, late, by what had overtaken it", func(c *verbs.Counters) uint64 { return c.SpuriousRepeats }},
	{"timeouts", "ACK timeouts", func(c *verbs.Counters) uint64 { return c.Timeouts }},
	{"loss_probes", "packets sent again after a few round trips without an answer", func(c *verbs.Counters) uint64 { return c.LossProbes }},
	{"implied_naks", "gaps in READ responses", func(c *verbs.Counters) uint64 { return c.ImpliedNAKs }},
	{"sent_seq_naks", "sequence NAKs sent", func(c *verbs.Counters) uint64 { return c.SentSeqNAKs }},
	{"ce_marked_pkts", "packets received with ECN CE", func(c *verbs.Counters) uint64 { return c.CEMarkedPkts }},
	{"cnps_sent", "congestion notifications sent", func(c *verbs.Counters) uint64 { return c.CNPsSent }},
	{"cnps_handled", "congestion notifications received", func(c *verbs.Counters) uint64 { return c.CNPsHandled }},
	{"rate_cuts", "rates lowered by congestion control", func(c *verbs.Counters) uint64 { return c.RateCuts }},
	{"pacing_holds", "times that a queue pair had to wait for its rate", func(c *verbs.Counters) uint64 { return c.PacingHolds }},
	{"coalesced_acks", "acknowledgements saved by coalescing", func(c *verbs.Counters) uint64 { return c.CoalescedAcks }},
	{"far_ahead_request", "of out_of_seq_request: further ahead than a peer is believed to be", func(c *verbs.Counters) uint64 { return c.FarAheadRequest }},
	{"kept_ahead", "packets that came before their turn and were kept", func(c *verbs.Counters) uint64 { return c.KeptAhead }},
	{"kept_in_turn", "of those, handled when what was missing had come", func(c *verbs.Counters) uint64 { return c.KeptInTurn }},
	{"cut_reads", "repeated READs answered in part or not, because it was answered too often", func(c *verbs.Counters) uint64 { return c.CutReads }},
	{"memory_faults", "accesses to registered memory that was not there", func(c *verbs.Counters) uint64 { return c.MemoryFaults }},
	{"lost_async_events", "asynchronous events that nobody took in time", func(c *verbs.Counters) uint64 { return c.LostAsyncEvents }},
	{"drop_malformed", "received packets dropped: too short or cut off, bad TVer; UC and UD: of a wrong length, or not allowed by the queue pair", func(c *verbs.Counters) uint64 { return c.DropMalformed }},
	{"drop_opcode", "received packets dropped: unknown opcode", func(c *verbs.Counters) uint64 { return c.DropOpcode }},
	{"drop_no_qp", "packets for a queue pair that there is not; those in numbers that no device at the address has are counted by each", func(c *verbs.Counters) uint64 { return c.DropNoQP }},
	{"drop_qp_type", "received packets dropped: opcode of another service type", func(c *verbs.Counters) uint64 { return c.DropQPType }},
	{"drop_state", "received packets dropped: queue pair not ready", func(c *verbs.Counters) uint64 { return c.DropState }},
	{"drop_address", "received packets dropped: from or to another address", func(c *verbs.Counters) uint64 { return c.DropAddress }},
	{"drop_pkey", "packets with another P_Key", func(c *verbs.Counters) uint64 { return c.DropPKey }},
	{"drop_qkey", "packets with another Q_Key", func(c *verbs.Counters) uint64 { return c.DropQKey }},
	{"drop_icrc", "packets with a wrong checksum", func(c *verbs.Counters) uint64 { return c.DropICRC }},
	{"drop_cnp", "of cnps_handled: for no packet that had left", func(c *verbs.Counters) uint64 { return c.DropCNP }},
	{"drop_uc_gap", "UC packets of broken messages", func(c *verbs.Counters) uint64 { return c.DropUCGap }},
	{"drop_no_recv", "received packets dropped: UC and UD: no receive posted, or too small", func(c *verbs.Counters) uint64 { return c.DropNoRecv }},
	{"drop_access", "received packets dropped: UC: memory that the peer may not write", func(c *verbs.Counters) uint64 { return c.DropAccess }},
	{"drop_bad_response", "received packets dropped: stale or unexpected responses ignored", func(c *verbs.Counters) uint64 { return c.DropBadResponse }},
}
