package verbs

// Counters are what a device has counted since it was opened ([Device.Counters]). The first block
// has the names and meanings of rdma_rxe's hw_counters, which the comments give; rxe lacks the
// rest.
type Counters struct {
	SentPkts            uint64 // sent_pkts
	RcvdPkts            uint64 // rcvd_pkts: packets that passed every check
	DuplicateRequest    uint64 // duplicate_request
	OutOfSeqRequest     uint64 // out_of_seq_request
	RcvdRNRErr          uint64 // rcvd_rnr_err: RNR NAKs received
	SendRNRErr          uint64 // send_rnr_err: RNR NAKs sent
	RcvdSeqErr          uint64 // rcvd_seq_err: sequence NAKs received
	AckDeferred         uint64 // ack_deferred: responses queued
	RetryExceededErr    uint64 // retry_exceeded_err: queue pairs that failed with WCRetryExcErr
	RetryRNRExceededErr uint64 // retry_rnr_exceeded_err: queue pairs that failed with WCRNRRetryExcErr
	CompleterRetryErr   uint64 // completer_retry_err: go-back-N started
	SendErr             uint64 // send_err: packets that the link refused or dropped
	LinkDowned          uint64 // link_downed: times that the interfaces under the link went down
	RDMASends           uint64 // rdma_sends: send work requests completed
	RDMARecvs           uint64 // rdma_recvs: receive work requests completed
	SentBytes           uint64 // sent_bytes: BTH through ICRC
	RcvdBytes           uint64 // rcvd_bytes

	RetransmittedPkts uint64
	SelectiveRepeats  uint64 // of RetransmittedPkts: packets that were missing, sent again without those behind them
	SpuriousRepeats   uint64 // of SelectiveRepeats: needless, because the original was only late, overtaken by others
	Timeouts          uint64 // ACK timeouts
	LossProbes        uint64 // packets sent again after a few round trips without an answer
	ImpliedNAKs       uint64 // gaps in READ responses
	SentSeqNAKs       uint64
	CEMarkedPkts      uint64 // received with ECN CE
	CNPsSent          uint64
	CNPsHandled       uint64
	RateCuts          uint64 // by congestion control
	PacingHolds       uint64 // times that a queue pair waited for its rate
	CoalescedAcks     uint64 // acknowledgements saved by coalescing
	FarAheadRequest   uint64 // of OutOfSeqRequest: further ahead than a plausible peer would be
	// Packets kept because they came before their turn; requests among them also count in
	// OutOfSeqRequest.
	KeptAhead       uint64
	KeptInTurn      uint64 // of KeptAhead: handled once the missing ones had come
	CutReads        uint64 // repeated READs answered only in part or not at all, because they were repeated too often
	MemoryFaults    uint64 // accesses to registered memory that was not there
	LostAsyncEvents uint64 // asynchronous events dropped because the application took none

	// Received packets that were dropped, by reason, in the order of the checks.

	DropMalformed   uint64 // too short or cut off, bad TVer; UC and UD: wrong length, or not allowed by the queue pair
	DropOpcode      uint64 // unknown opcode
	DropNoQP        uint64 // no such queue pair; a number that no device at the address has counts at each device there
	DropQPType      uint64 // opcode of another service type
	DropState       uint64 // queue pair not ready
	DropAddress     uint64 // from or to another address
	DropPKey        uint64
	DropQKey        uint64
	DropICRC        uint64
	DropCNP         uint64 // of CNPsHandled: for no packet that was sent
	DropUCGap       uint64 // UC packets of broken messages
	DropNoRecv      uint64 // UC and UD: no receive posted, or too small
	DropAccess      uint64 // UC: memory that the peer may not write
	DropBadResponse uint64 // responses ignored as stale or unexpected
}
