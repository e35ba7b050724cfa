package strict

// Rule names a rule.
type Rule string

// The rules. [Rules] has what they say and on what authority.
const (
	RuleOpcode       Rule = "opcode"
	RuleReserved     Rule = "reserved"
	RulePad          Rule = "pad"
	RuleLength       Rule = "length"
	RuleAckReq       Rule = "ack-req"
	RuleSolicited    Rule = "solicited"
	RuleMigReq       Rule = "mig-req"
	RulePKey         Rule = "p-key"
	RuleSyndrome     Rule = "syndrome"
	RuleICRC         Rule = "icrc"
	RuleDF           Rule = "dont-fragment"
	RuleCNP          Rule = "cnp"
	RuleGSI          Rule = "gsi"
	RuleQKey         Rule = "q-key"
	RuleAtomic       Rule = "atomic"
	RuleFlowLabel    Rule = "flow-label"
	RulePSNOrder     Rule = "psn-order"
	RuleMessageOrder Rule = "message-order"
	RuleOverlap      Rule = "overlap"
	RuleAgain        Rule = "again"
	RuleUCAgain      Rule = "uc-again"
	RuleTries        Rule = "tries"
	RuleDepth        Rule = "read-depth"
	RuleCredits      Rule = "credits"
	RuleRNRWait      Rule = "rnr-wait"
	RuleGoBack       Rule = "go-back"
	RuleNoRetry      Rule = "no-retry"
	RuleAfterFatal   Rule = "after-fatal"
	RuleAckUnsent    Rule = "ack-unsent"
	RuleAckBack      Rule = "ack-back"
	RuleAckKind      Rule = "ack-kind"
	RuleAckPast      Rule = "ack-past"
	RuleRefuse       Rule = "refuse"
	RuleContradict   Rule = "contradict"
	RuleZeroLength   Rule = "zero-length"
	RuleNAKCode      Rule = "nak-code"
	RuleNAKUnfounded Rule = "nak-unfounded"
	RuleNAKAfterRNR  Rule = "nak-after-rnr"
	RuleRNRKind      Rule = "rnr-kind"
	RuleMSN          Rule = "msn"
	RuleResponse     Rule = "response"
	RuleStream       Rule = "stream"
	RuleUnanswered   Rule = "unanswered"
	RuleCNPMissing   Rule = "cnp-missing"
	RuleCMOrder      Rule = "cm-order"
	RuleCMAgain      Rule = "cm-again"
)

// The sides that may break a rule.
const (
	anybody   = "any"
	requester = "requester"
	responder = "responder"
)

// RuleInfo is what there is to know of a rule.
type RuleInfo struct {
	Rule   Rule   `json:"rule"`
	Who    string `json:"who"`    // "requester", "responder", or "any"
	Source string `json:"source"` // a clause of the InfiniBand specification, or what else says so
	Text   string `json:"text"`
}

// Rules returns all rules.
func Rules() []RuleInfo { return append([]RuleInfo(nil), rules...) }

var rules = []RuleInfo{
	{RuleOpcode, anybody, "IBTA 9.2.1", "The opcodes of RC, UC and UD are those of the table; others are reserved."},
	{RuleReserved, anybody, "IBTA 9.2", "Reserved bits of the headers are sent as 0, and so is the version."},
	{RulePad, anybody, "IBTA 9.2.3",
		"A packet is a multiple of 4 bytes long, by 0 to 3 bytes of zeros behind its payload."},
	{RuleLength, requester, "IBTA 9.7.4.1.6, 9.8.2.2, 9.8.3.2.2",
		"FIRST and MIDDLE carry the path MTU, LAST 1 byte to that, ONLY up to that; requests without data none; the packets of a WRITE together what its RETH says, 2 GiB at most."},
	{RuleAckReq, anybody, "IBTA 9.2.4; docs/rxe.md row 15",
		"Who cannot be answered does not ask: responses, UC, datagrams."},
	{RuleSolicited, anybody, "IBTA 9.2.3",
		"A solicited event is asked for in the last packet of a SEND, or of a WRITE with immediate data."},
	{RuleMigReq, anybody, "IBTA 9.2.3, 17.2.8", "MigReq is 1 where no alternate path is loaded."},
	{RulePKey, anybody, "IBTA 10.9.2, 12.6.6", "The partition key is no invalid one, and the one of the REQ."},
	{RuleSyndrome, responder, "IBTA 9.7.5.2.1",
		"Syndromes are those of the table, and what carries data acknowledges."},
	{RuleICRC, anybody, "IBTA 7.8.1, A17.3.3",
		"The invariant CRC covers each field once, with what may change on the way as ones."},
	{RuleDF, anybody, "A17.3.2", "IPv4 packets of RoCE v2 are not to be fragmented, and say so."},
	{RuleCNP, responder, "A17.9.3",
		"A CNP has BECN, no FECN, and zeros otherwise: no PSN, no request for an ACK, nothing behind."},
	{RuleGSI, anybody, "IBTA 3.5.3, 13.4.3",
		"What goes to queue pair 1 is a datagram of 256 bytes with the Q_Key 0x80010000."},
	{RuleQKey, requester, "IBTA 10.2.5",
		"A Q_Key with the top bit set in a work request stands for that of the queue pair: it is not sent."},
	{RuleAtomic, requester, "IBTA 9.4.5, A19.4.2", "The address of an atomic operation is a multiple of 8."},
	{RuleFlowLabel, anybody, "IBTA 12.6.6, A17.4.2",
		"Over IPv6 packets have the flow label that the REQ has for the path."},
	{RulePSNOrder, requester, "IBTA 9.7.1, 9.7.2",
		"The next request has the next PSN; one that was sent before may come again."},
	{RuleMessageOrder, requester, "IBTA 9.7.4.1.2",
		"FIRST is followed by MIDDLE and LAST of the same operation, and these by a new message."},
	{RuleOverlap, requester, "IBTA 9.4.4, 9.7.3.1",
		"A READ has as many PSNs as responses; no other request has one of them."},
	{RuleAgain, requester, "IBTA 9.7.5.1.1, 9.4.4",
		"A request that is sent again is the same request; a READ may begin further on, and ends where it did."},
	{RuleUCAgain, requester, "IBTA 9.8.2.1", "UC sends nothing again."},
	{RuleTries, requester, "IBTA 9.7.6.1.3, 9.9.2.1.1",
		"A request is sent 8 times at most (7 retries) while nothing comes back."},
	{RuleDepth, requester, "IBTA 9.4.4, 12.6.6",
		"No more READs and atomics are outstanding than were agreed upon in REQ and REP."},
	{RuleCredits, requester, "IBTA 9.7.7.2",
		"A requester that was given credits sends one message more than these allow, and waits."},
	{RuleRNRWait, requester, "IBTA 9.7.5.2.8",
		"After an RNR NAK the request waits for the time that this says, and so do those behind it."},
	{RuleGoBack, requester, "IBTA 9.7.5.1.2, 9.7.6.1.2",
		"After a sequence NAK, or a gap in the responses, what is missing comes before anything new, and at once."},
	{RuleNoRetry, requester, "IBTA 9.7.6.1.3",
		"What was not answered is sent again after the timeout, or the queue pair ends."},
	{RuleAfterFatal, anybody, "IBTA 9.9.2.2, 9.9.2.4.2",
		"After a NAK that says that a request is wrong both queue pairs send no requests any more."},
	{RuleAckUnsent, responder, "IBTA 9.7.5.1.2", "What is acknowledged was sent."},
	{RuleAckBack, responder, "IBTA 9.7.5.1.2, 9.7.5.1.4",
		"Acknowledgements do not go back, unless they answer a duplicate, and then they name that, or a later one."},
	{RuleAckKind, responder, "IBTA 9.7.5.1.1",
		"A READ is answered with its data, an atomic operation with the former value."},
	{RuleAckPast, responder, "IBTA 9.7.5.1.1, 9.7.5.1.2",
		"Requests are answered in their order: no ACK of a later one before a READ or atomic has its answer."},
	{RuleRefuse, responder, "IBTA 9.7.4.1.2, 9.7.4.1.6",
		"A request that cannot be right is refused, and not acknowledged."},
	{RuleContradict, responder, "IBTA 9.7.5.1.2, 9.9.2.4.2",
		"A request that was acknowledged is not refused, and the other way round."},
	{RuleZeroLength, responder, "IBTA 9.7.4.1.5 (C9-88)", "The key of a READ or WRITE of no bytes is not looked at."},
	{RuleNAKCode, responder, "IBTA 9.7.4.1.6, 9.7.5.2.4",
		"A length over 2 GiB is an invalid request, and no error of access."},
	{RuleNAKUnfounded, responder, "IBTA 9.7.4.1.1, 9.7.5.2.4",
		"A sequence NAK follows a request behind the PSN that it names."},
	{RuleNAKAfterRNR, responder, "IBTA 9.7.5.2.8",
		"After an RNR NAK the requests behind are dropped without a word, until that one comes again or its time is over."},
	{RuleRNRKind, responder, "IBTA 9.7.5.2.8",
		"What needs no receive is not told to wait for one: WRITE, READ, atomics."},
	{RuleMSN, responder, "IBTA 9.7.7.1",
		"The message sequence number counts what was completed: no less than what is acknowledged, no more than what was sent."},
	{RuleResponse, responder, "IBTA 9.7.5.1.3",
		"The responses to a READ are FIRST, MIDDLE, LAST, or ONLY, by where they stand in it, and have its bytes."},
	{RuleStream, responder, "IBTA 9.7.5.1.3",
		"Responses to one READ follow each other; another one begins with FIRST or ONLY."},
	{RuleUnanswered, responder, "IBTA 9.7.5.1.5, 9.7.4.1.2",
		"A request that comes again is answered again, a READ 16 times at least; one that cannot be is refused."},
	{RuleCNPMissing, responder, "A17.9.3",
		"Who gets a packet with the mark of a congested switch tells its sender by a CNP."},
	{RuleCMOrder, anybody, "IBTA 12.9",
		"REP and REJ answer a REQ, RTU a REP, DREP a DREQ, each with the communication IDs of that."},
	{RuleCMAgain, anybody, "IBTA 12.6, 12.9.8.3.1",
		"A message of the communication manager that comes again is the same message."},
}

// Excuse is what would explain a violation without a fault of the side that is blamed.
type Excuse string

// The excuses.
const (
	ExcuseCapture Excuse = "the capture lacks a packet, or has one twice or too late"
	ExcuseWay     Excuse = "a packet was lost, doubled or overtaken on its way"
	ExcuseBefore  Excuse = "it began before the capture"
	ExcuseReuse   Excuse = "another connection with the same numbers"
	ExcuseUnseen  Excuse = "something that packets do not show"
)
