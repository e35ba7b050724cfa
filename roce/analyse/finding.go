package analyse

import (
	"fmt"
	"strings"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// Kind names the kind of a finding.
type Kind string

// The kinds.
const (
	LostRequest       Kind = "lost-request"
	LostReadRequest   Kind = "lost-read-request"
	LostReadResponse  Kind = "lost-read-response"
	LostAck           Kind = "lost-ack"
	LostAtomicAck     Kind = "lost-atomic-ack"
	DuplicateRequest  Kind = "duplicate-request"
	DuplicateAck      Kind = "duplicate-ack"
	Reordered         Kind = "reordered"
	Corrupt           Kind = "corrupt"
	CEMarked          Kind = "ce-marked"
	RateCut           Kind = "rate-cut"
	LateAck           Kind = "late-ack"
	RNR               Kind = "rnr"
	RNRExceeded       Kind = "rnr-retry-exceeded"
	RemoteAccess      Kind = "remote-access"
	InvalidRequest    Kind = "invalid-request"
	RemoteOperational Kind = "remote-operational"
	RetryExceeded     Kind = "retry-exceeded"
	PeerGone          Kind = "peer-gone"
	CMRejected        Kind = "cm-rejected"
	CMLost            Kind = "cm-lost"
	CMSlow            Kind = "cm-slow"
	UDLost            Kind = "ud-lost"
	UCLost            Kind = "uc-lost"
	MTUMismatch       Kind = "mtu-mismatch"
	PMTUBlackhole     Kind = "pmtu-blackhole"
	StaleConnection   Kind = "stale-connection"
	SlowReceiver      Kind = "slow-receiver"
	CreditsExhausted  Kind = "credits-exhausted"
	ICRCRewritten     Kind = "icrc-rewritten"
)

// KindInfo says what a kind means.
type KindInfo struct {
	Kind    Kind
	Meaning string
	Advice  string // what to do about it
}

// Kinds returns all kinds in the order of their documentation.
func Kinds() []KindInfo { return append([]KindInfo(nil), kinds...) }

var kinds = []KindInfo{
	{LostRequest, "A request packet (SEND, WRITE, atomic) did not arrive, and was sent again.",
		"Compare the drop counters from the requester to the responder: interface (ethtool -S), switch ports, and at the responder UdpRcvbufErrors in /proc/net/snmp. Several packets in a row are a full queue: PFC or ECN, or shorter bursts. Single ones here and there are a bad cable or optics: look for CRC errors."},
	{LostReadRequest, "A READ request did not arrive, and was sent again.",
		"It is one small packet, so that it is seldom the cause of a full queue itself: look what else goes from the requester to the responder, and for CRC errors on that way. Until it is sent again everything behind it waits: a shorter ACK timeout makes that shorter."},
	{LostReadResponse, "A packet of a READ's response did not arrive; the requester asked again for what was missing.",
		"The way is from the responder to the requester: look for drops at switch ports towards the requester, and in its host (UdpRcvbufErrors in /proc/net/snmp, rx_dropped). Responses come as fast as the responder can send, and no window stops them: smaller READs, or fewer at a time (max_rd_atomic), make shorter bursts."},
	{LostAck, "A request arrived but its acknowledgement did not; the requester sent it again and the responder acknowledged the duplicate. Nothing was done twice.",
		"The way is back, from the responder to the requester: acknowledgements are small, and are lost where other traffic fills a queue. Give them the same priority as the data (DSCP and traffic class on both sides), and look for drops in the requester's host."},
	{LostAtomicAck, "An atomic was done but its answer did not arrive; the requester repeated it and the responder answered from memory. It was not done twice.",
		"Look for drops on the way back, from the responder to the requester. A repeated atomic costs an ACK timeout: where latency matters set the timeout to a few round trips."},
	{DuplicateRequest,
		"The network delivered a request packet twice. The responder ignores the second but for an acknowledgement.",
		"Harmless by itself. A loop, a mirror port or a bond in broadcast mode does that."},
	{DuplicateAck, "An acknowledgement or response came twice without a reason.",
		"Harmless by itself. A loop, a mirror port or a bond in broadcast mode does that."},
	{Reordered, "A packet was overtaken by a later one. RC treats that as a loss: the responder wants everything again from there.",
		"Find what sends packets of one flow over several paths: per-packet ECMP, bonding in round-robin mode, several receive queues without flow hashing."},
	{Corrupt, "The ICRC of a packet is wrong: the receiver drops it as if it had been lost.",
		"A bad cable, card or memory, or a middlebox that rewrites packets (NAT breaks the ICRC by design)."},
	{CEMarked, "A switch has marked packets: its queue is long (ECN, congestion experienced).",
		"Not an error: congestion control at work. If the receiver sends no CNPs (rxe does not), the marks change nothing."},
	{RateCut, "The receiver has sent congestion notifications (CNP): a sender with DCQCN slows down.",
		"Not an error: congestion control at work. Look for the bottleneck if goodput matters: an incast, or a slower link."},
	{LateAck, "The requester sent again although nothing was lost: the answer came later than its timer.",
		"Raise the ACK timeout (attribute timeout: 4.096 us x 2^timeout), or find what makes the responder slow."},
	{RNR, "The receiver was not ready: a SEND, or WRITE with immediate, came and no receive request was posted. The requester waits as long as the NAK says, and sends again.",
		"Post receives before the peer sends, and enough of them. Check min_rnr_timer at the receiver: 0 means 655 ms, 12 means 0.64 ms."},
	{RNRExceeded,
		"The receiver stayed not ready, and the requester gave up: completion status 13, RNR retry counter exceeded.",
		"Post receives; rnr_retry 7 waits for ever."},
	{RemoteAccess, "The responder refused the key or the range: completion status 10, remote access error. Both queue pairs are dead.",
		"Compare rkey, address and length with what the peer registered and with its access flags; check that the region or window has not been deregistered or invalidated."},
	{InvalidRequest, "The responder cannot carry the request out: completion status 9, remote invalid request error. Both queue pairs are dead.",
		"Check the access flags of the responder's queue pair, its max_dest_rd_atomic, the alignment of atomics, message lengths against posted receives, and the path MTU on both sides."},
	{RemoteOperational, "The responder failed by its own fault: completion status 11, remote operation error. Both queue pairs are dead.",
		"Look at the responder: the receive buffer was too short (rxe answers so), its key was wrong, or it had an internal error."},
	{RetryExceeded,
		"No answer after all retries: completion status 12, transport retry counter exceeded. The queue pair is dead.",
		"Is the peer alive, and in RTR or RTS? Does UDP port 4791 pass in both directions (firewall, security group)? Do packets of full size pass? Do both sides agree on QP numbers and PSNs?"},
	{PeerGone, "The peer has stopped to answer anything.",
		"Is the process or host dead, or the path cut? rxe retries for ever with retry_cnt 7: have a keep-alive of your own."},
	{CMRejected, "The peer's RDMA-CM refused the connection.",
		"The reason says why; 'invalid service ID' means that nobody listens on that port."},
	{CMLost, "A message of RDMA-CM, or its answer, was lost, and it was sent again after the CM's timeout (seconds with Linux).",
		"Messages of RDMA-CM are datagrams to queue pair 1. Does UDP port 4791 pass in both directions, also unasked (firewall, security group)? Is the peer's address right, and does its interface have the subnet? A single loss costs the CM's timeout and nothing else."},
	{CMSlow, "The peer has the request for a connection (it says so with an MRA), and its application takes its time to answer.",
		"Nothing is lost. Look at what the peer does before it accepts: a queue of connections, memory that is registered, a lookup."},
	{UDLost, "A datagram is missing: UD repeats nothing.",
		"Datagrams need a receive posted, room of 40 bytes for the header, the right Q_Key, and a network that does not drop. The application has to repeat what matters."},
	{UCLost, "A packet of an unreliable connection is missing; its message is lost, and UC repeats nothing.",
		"Look for drops between the two, as with lost requests; a receiver that is slower than the sender drops, too, for UC has no acknowledgements that slow it down. Use RC if every message matters."},
	{MTUMismatch, "The two sides use different path MTUs: the responder refuses packets of the requester's size.",
		"Set the same path MTU on both sides (ibv_rc_pingpong -m); RDMA-CM takes it from the interface, so compare those."},
	{PMTUBlackhole, "Small packets arrive, packets of full size never: something on the way has a smaller MTU and drops them silently.",
		"Lower the path MTU to what the path carries (interface MTU 1500 carries 1024), or repair the MTU along the way; ping -M do -s SIZE finds the place."},
	{StaleConnection,
		"The peer knows nothing of this connection, or still has the one before it on the same queue pair number.",
		"One side has restarted: connect anew. After a crash the other side needs its timeout before it lets the numbers go."},
	{SlowReceiver, "Packets reached the receiving host in order and undamaged, and it asked for them again: they were dropped inside it, for instance because the socket buffer was full.",
		"Raise net.core.rmem_max and the socket buffers, poll more, or send in shorter bursts."},
	{CreditsExhausted, "The sender had no credits: the receiver had told that no receive request is posted, and the sender waited for more.",
		"Post more receives, earlier."},
	{ICRCRewritten, "No packet from an address has a right ICRC.",
		"Something changes the headers: NAT or a middlebox, which RoCE cannot pass. Or the capture was taken where the card has not computed the ICRC yet: then take it at the other side."},
}

var kindIndex = func() map[Kind]int {
	m := map[Kind]int{}
	for i, k := range kinds {
		m[k.Kind] = i
	}
	return m
}()

// Finding is something that went wrong, or is noteworthy.
type Finding struct {
	Kind Kind `json:"kind"`
	// Or lists the alternatives, which look the same from here. Empty if Certain.
	Or []Kind `json:"or,omitempty"`
	// Frames are the packets that show it. The first is the packet that it happened to; if the
	// capture lacks that, the first packet that shows the lack.
	Frames []int `json:"frames"`
	// Connection is the number of the Connection, 0 for none.
	Connection int `json:"connection"`
	// QPN is the queue pair that the packet was for, and PSN its number; with several packets,
	// those of the first one.
	QPN ib.QPN `json:"qpn"`
	PSN ib.PSN `json:"psn"`
	// Certain is false if there are alternatives; Text says why.
	Certain bool   `json:"certain"`
	Text    string `json:"text"`
	Advice  string `json:"advice"`
	// Cause is the likely cause of RemoteAccess, judged by earlier packets: "key", "range",
	// "right", "invalidated" or "deregistered".
	Cause string `json:"cause,omitempty"`
	// Status is the completion status that the application saw, or "" if it only saw a delay.
	Status string `json:"status,omitempty"`
	// AtNs is the time of the first frame, nanoseconds since the first packet of the capture.
	AtNs int64 `json:"at_ns"`

	advice   string // in place of that of the kind
	a        *Analyser
	conn     *conn
	half     *half  // whose requests it is about
	request  ib.PSN // that it is about, whose answer may have PSN
	nak      int    // frame of the NAK, if there is one
	what     func(f *Finding) string
	gone     bool // taken back: another one explains it
	byGap    bool // requests were missing here
	followed bool // what comes behind them was sent again, too, so that the requester did go back
	early    bool // something may be under way from before the capture
	open     bool // a second answer would tell which of Or it is
	count    int  // packets that it is about
	answers  int  // behind the first
}

// sight is what a text says of a packet. The text is written at the end, when the packet is gone.
type sight struct {
	Frame int
	PSN   ib.PSN
	AETH  ib.AETH
}

func see(p *pcap.Packet) *sight { return &sight{p.Frame, p.PSN, p.AETH} }

// maxFindingFrames bounds Finding.Frames.
const maxFindingFrames = 64

// add adds a frame that belongs to the finding.
func (f *Finding) add(frame int) {
	if f == nil || frame == notCaptured || len(f.Frames) > 0 && f.Frames[len(f.Frames)-1] == frame {
		return
	}
	if len(f.Frames) == 0 {
		f.begins(frame)
	}
	if len(f.Frames) < maxFindingFrames {
		f.Frames = append(f.Frames, frame)
	}
}

// begins sets the time to that of a frame, if it is remembered.
func (f *Finding) begins(frame int) {
	if at, ok := f.a.times.of(frame); ok {
		f.AtNs = at - f.a.start
	}
}

// lead puts a frame in front.
func (f *Finding) lead(frame int) {
	if frame == notCaptured || len(f.Frames) > 0 && f.Frames[0] == frame {
		return
	}
	frames := f.Frames
	f.Frames = nil
	f.add(frame)
	for _, x := range frames {
		if x != frame {
			f.add(x)
		}
	}
}

// is makes the finding one of another kind, now certain or with what it may be instead.
func (f *Finding) is(k Kind, or ...Kind) {
	f.Kind, f.Or, f.Certain = k, or, len(or) == 0
}

// Has reports whether the finding is, or may be, of kind k.
func (f *Finding) Has(k Kind) bool {
	if f.Kind == k {
		return true
	}
	for _, o := range f.Or {
		if o == k {
			return true
		}
	}
	return false
}

// finish writes the text.
func (f *Finding) finish() {
	i := kindIndex[f.Kind]
	f.Advice = kinds[i].Advice
	if f.advice != "" {
		f.Advice = f.advice
	}
	f.Advice = f.where() + f.Advice
	unsure := f.doubt()
	var b strings.Builder
	if f.what != nil {
		b.WriteString(f.what(f))
	} else {
		b.WriteString(kinds[i].Meaning)
	}
	if len(f.Or) > 0 {
		names := make([]string, len(f.Or))
		for i, k := range f.Or {
			names[i] = string(k)
		}
		fmt.Fprintf(&b, " From here it may also be %s.", strings.Join(names, " or "))
	}
	b.WriteString(unsure)
	if f.Status != "" {
		saw := "The application saw"
		if !f.Certain && (f.Kind == RetryExceeded || f.Kind == RNRExceeded) {
			saw = "If it is so, the application saw"
		}
		fmt.Fprintf(&b, " %s: %s.", saw, f.Status)
	}
	f.Text = b.String()
}

// where says on which way something was lost, if the capture tells that.
func (f *Finding) where() string {
	h := f.half
	if h == nil || len(f.Or) > 0 {
		return ""
	}
	from, to, back := h.requester(), h.responder(), false
	switch f.Kind {
	case LostRequest, LostReadRequest, UCLost, UDLost:
	case LostReadResponse, LostAck, LostAtomicAck:
		from, to, back = to, from, true
	default:
		return ""
	}
	atSender, atReceiver := h.atRequester(), h.atResponder()
	if back {
		atSender, atReceiver = atReceiver, atSender
	}
	switch {
	case atSender:
		return fmt.Sprintf("It left the host of %s, where this capture is from: look behind that, up to %s. ", from, to)
	case atReceiver:
		return fmt.Sprintf(
			"It did not reach the host of %s, where this capture is from: look at what is before that, from %s on. ",
			to, from)
	}
	return fmt.Sprintf("The way is from %s to %s. ", from, to)
}

// byAbsence are the kinds that follow from packets missing from the capture, or from their order.
var byAbsence = map[Kind]bool{
	LostRequest: true, LostReadRequest: true, LostReadResponse: true, LostAck: true, LostAtomicAck: true,
	DuplicateRequest: true, DuplicateAck: true, Reordered: true, LateAck: true, CMLost: true,
	SlowReceiver: true, RetryExceeded: true,
}

// doubt makes a finding uncertain that is certain only of a capture with all packets that passed,
// and says why.
func (f *Finding) doubt() string {
	switch {
	case !f.Certain || !byAbsence[f.Kind]:
		return ""
	case f.early:
		f.Certain = false
		return " What was sent before the capture began may explain it, too."
	case f.byGap && !f.followed && f.Kind != Reordered:
		f.is(f.Kind, Reordered)
		return " What came then was not followed by the rest: it may have been late, and not sent again."
	case f.a.now-f.a.start-f.AtNs < reorderNs &&
		(f.Kind == LostRequest || f.Kind == LostReadRequest || f.Kind == LostReadResponse):
		f.is(f.Kind, Reordered)
		return " The capture ends so soon that it may come yet."
	case f.a.lacking > 0:
		f.Certain = false
		return " The capture lacks packets that passed: this may be one of them."
	}
	return ""
}

// The completion statuses as the application sees them.
const (
	statusInvalidRequest = "IBV_WC_REM_INV_REQ_ERR (9), remote invalid request error"
	statusRemoteAccess   = "IBV_WC_REM_ACCESS_ERR (10), remote access error"
	statusRemoteOp       = "IBV_WC_REM_OP_ERR (11), remote operation error"
	statusRetry          = "IBV_WC_RETRY_EXC_ERR (12), transport retry counter exceeded"
	statusRNRRetry       = "IBV_WC_RNR_RETRY_EXC_ERR (13), RNR retry counter exceeded"
)
