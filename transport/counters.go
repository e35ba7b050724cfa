package transport

// Counters counts what an engine did. The first block has the names and meanings of rdma_rxe's
// hw_counters; rxe has no equivalent of the rest.
type Counters struct {
	SentPkts            uint64 // sent_pkts
	RcvdPkts            uint64 // rcvd_pkts: packets that passed every check
	DuplicateRequest    uint64 // duplicate_request
	OutOfSeqRequest     uint64 // out_of_seq_request
	RcvdRNRErr          uint64 // rcvd_rnr_err: RNR NAKs received
	SendRNRErr          uint64 // send_rnr_err: RNR NAKs sent
	RcvdSeqErr          uint64 // rcvd_seq_err: sequence NAKs received
	AckDeferred         uint64 // ack_deferred: responses queued
	RetryExceededErr    uint64 // retry_exceeded_err
	RetryRNRExceededErr uint64 // retry_rnr_exceeded_err
	CompleterRetryErr   uint64 // completer_retry_err: go-back-N started
	SendErr             uint64 // send_err: packets that the link refused
	LinkDowned          uint64 // link_downed: counted by the shell
	RDMASends           uint64 // rdma_sends: send work requests completed
	RDMARecvs           uint64 // rdma_recvs: receive work requests completed
	SentBytes           uint64 // sent_bytes: BTH through ICRC
	RcvdBytes           uint64 // rcvd_bytes

	RetransmittedPkts uint64
	SelectiveRepeats  uint64 // of RetransmittedPkts: sent again alone, without the packets behind
	SpuriousRepeats   uint64 // of SelectiveRepeats: not needed, the original was only late
	Timeouts          uint64 // ACK timeouts
	LossProbes        uint64 // packets sent again after a few round trips without an answer
	ImpliedNAKs       uint64 // gaps in READ responses
	SentSeqNAKs       uint64
	CEMarkedPkts      uint64 // received with ECN CE
	CNPsSent          uint64
	CNPsHandled       uint64
	RateCuts          uint64 // by congestion control
	PacingHolds       uint64 // times that a QP had to wait for its rate
	CoalescedAcks     uint64 // acknowledgements saved by coalescing
	FarAheadRequest   uint64 // of OutOfSeqRequest: further ahead than a peer plausibly is
	KeptAhead         uint64 // early packets kept; requests among them are in OutOfSeqRequest too
	KeptInTurn        uint64 // of KeptAhead: handled once the missing packets had come
	CutReads          uint64 // repeated READs cut short or refused: answered too often
	MemoryFaults      uint64 // accesses to registered memory that was not there
	LostAsyncEvents   uint64 // asynchronous events not taken in time: counted by the shell

	// Received packets that were dropped, by reason (wire-spec order of checks).
	DropMalformed   uint64 // too short, bad TVer; UC and UD: wrong length, or not allowed by the QP
	DropOpcode      uint64 // unknown opcode
	DropNoQP        uint64
	DropQPType      uint64 // opcode of another transport
	DropState       uint64 // QP not ready
	DropAddress     uint64 // from or to another address
	DropPKey        uint64
	DropQKey        uint64
	DropICRC        uint64 // counted by the shell
	DropCNP         uint64 // of CNPsHandled: no packet had left that it could be about
	DropUCGap       uint64 // UC packets of broken messages
	DropNoRecv      uint64 // UC and UD: no receive posted, or too small
	DropAccess      uint64 // UC: memory that the peer may not write
	DropBadResponse uint64 // stale or unexpected responses ignored
}
