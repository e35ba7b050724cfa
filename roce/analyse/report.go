package analyse

import (
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
)

// Options control the analysis. The zero value is a good default.
type Options struct {
	// Local are addresses of the host where the capture was taken, if the frames do not tell.
	Local []netip.Addr
	// Limits; 0 means the default.
	MaxConnections int // 16,384
	MaxRecords     int // packets remembered, over all connections: 1,048,576
	MaxFindings    int // 10,000
	// Conduct, if not nil, asks for a judgement of the hosts: see [Conduct].
	Conduct *Conduct
	// Recall is for how many of the last packets of RC the report keeps time and addresses, for
	// [Report.Exhausted].
	Recall int
}

const (
	defaultConnections = 1 << 14
	defaultRecords     = 1 << 20
	defaultFindings    = 10_000
)

// Endpoint is one end of a connection.
type Endpoint struct {
	Addr netip.Addr `json:"addr"`
	QPN  ib.QPN     `json:"qpn"`
	// Known is whether QPN is known: only packets to an endpoint name it.
	Known bool `json:"qpn_known"`
}

// Report is the result of an analysis.
type Report struct {
	Packets    int   `json:"packets"` // RoCE v2 packets, and ICMP messages about them
	DurationNs int64 `json:"duration_ns"`
	StartNs    int64 `json:"start_ns"` // of the first packet, since 1970
	Malformed  int   `json:"malformed"`
	Twice      int   `json:"captured_twice"` // packets that were captured at two interfaces

	Connections []*Connection `json:"connections"`
	Findings    []*Finding    `json:"findings"`
	Breaches    []Breach      `json:"breaches,omitempty"` // if Options.Conduct asked for them
	Repairs     []*Repair     `json:"repairs,omitempty"`  // of Conduct.Losses, one each

	// The counts of what there was no room for.
	MoreConnections int `json:"more_connections,omitempty"`
	MoreFindings    int `json:"more_findings,omitempty"`
	MoreBreaches    int `json:"more_breaches,omitempty"`
	Unjudged        int `json:"unjudged,omitempty"` // requests that RuleTries does not cover
	// Steps is how often the analyser examined something that it remembers: a measure of its work
	// that does not depend on the machine.
	Steps int64 `json:"-"`

	renumbered map[int]int
	recalled   recall
}

// Connection translates the connection number of a Note to the number in the report. The number
// changes if connections turn out to be one, or if there was no room for one.
func (r *Report) Connection(id int) int { return r.renumbered[id] }

// Connection is a pair of queue pairs, or an exchange of RDMA-CM that did not lead to one.
type Connection struct {
	Number    int         `json:"number"`
	Transport string      `json:"transport"` // "RC", "UC", "UD" or "CM"
	Ends      [2]Endpoint `json:"ends"`
	FirstNs   int64       `json:"first_ns"` // since the first packet of the capture
	LastNs    int64       `json:"last_ns"`
	Packets   int         `json:"packets"`
	MTU       int         `json:"mtu,omitempty"` // 0 if it is unknown
	// Service, and the course of RDMA-CM, if it made the connection.
	Service string   `json:"service,omitempty"`
	CM      []string `json:"cm,omitempty"`
	// Ways are the requests of End 0 to End 1, and the reverse.
	Ways  [2]Way   `json:"ways"`
	Notes []string `json:"notes,omitempty"` // what cannot be told from this capture
}

// Way is the requests of one end and the answers to them.
type Way struct {
	Operations map[string]*OpCount `json:"operations,omitempty"`
	Packets    int                 `json:"packets"`       // requests
	Payload    int64               `json:"payload_bytes"` // in requests, and in responses to READs
	Answers    int                 `json:"answers"`       // packets the other way
	ACKs       int                 `json:"acks"`          // positive acknowledgements among them
	ACKReqs    int                 `json:"ack_reqs"`      // requests that asked for one
	Again      int                 `json:"again"`         // request packets that were seen before
	Sequence   int                 `json:"sequence_naks"`
	RNRNAKs    int                 `json:"rnr_naks"`
	Timeouts   int                 `json:"timeouts"` // how often silence made the requester send again
	CE         int                 `json:"ce_marked"`
	CNPs       int                 `json:"cnps"`                 // those that told this requester to slow down
	CNPGapNs   int64               `json:"cnp_gap_ns,omitempty"` // the shortest time between two of them
	// Packets that the capture lacks though they were acknowledged.
	Missing int `json:"missing"`
	// PSNs of requests: the first that was seen, one past the last, and the first that was not
	// acknowledged.
	FirstPSN   ib.PSN `json:"first_psn"`
	NextPSN    ib.PSN `json:"next_psn"`
	UnackedPSN ib.PSN `json:"unacked_psn"`
	// GoodputBps is bits a second of payload, from the first request to the last completion.
	GoodputBps float64     `json:"goodput_bps"`
	Latency    Percentiles `json:"latency"`
	RTT        Percentiles `json:"rtt"`
}

// OpCount counts operations.
type OpCount struct {
	Begun     int   `json:"begun"`
	Completed int   `json:"completed"`
	Bytes     int64 `json:"bytes"` // of the completed ones
}

// Percentiles are of times in nanoseconds, exact to 3 %.
type Percentiles struct {
	Count int   `json:"count"`
	Min   int64 `json:"min_ns"`
	P50   int64 `json:"p50_ns"`
	P90   int64 `json:"p90_ns"`
	P99   int64 `json:"p99_ns"`
	Max   int64 `json:"max_ns"`
}

// Role is what a packet is in its connection.
type Role uint8

// The roles.
const (
	RoleOther Role = iota
	RoleRequest
	RoleAnswer
	RoleDatagram
	RoleCM
	RoleCNP
	RoleICMP
)

func (r Role) String() string {
	return [...]string{"", "request", "answer", "datagram", "cm", "cnp", "icmp"}[min(r, RoleICMP)]
}

// Cause is what made a requester repeat a packet.
type Cause uint8

// The causes.
const (
	CauseNone    Cause = iota // sent for the first time
	CauseNAK                  // a sequence NAK
	CauseRNR                  // an RNR NAK
	CauseGap                  // a gap in the responses to a READ
	CauseTimeout              // silence: a timeout or a probe
	CauseNetwork              // the network has duplicated it
	CauseUnknown              // the capture does not tell
)

func (c Cause) String() string {
	return [...]string{"", "sequence NAK", "RNR NAK", "gap in responses", "timeout", "doubled by the network",
		"unknown"}[min(c, CauseUnknown)]
}

// Note is the analyser's classification of a packet.
type Note struct {
	// Connection must be translated with Report.Connection; 0 is none.
	Connection int
	End        int // which end sent it: 0 or 1
	Role       Role
	Operation  int // number of the operation in its Way, from 1; 0 if it is not known
	Cause      Cause
	Late       bool          // a gap was filled, or an answer came after the requester had sent again
	Twice      bool          // the same packet as another frame, captured at another interface
	CM         mad.Attribute // of RoleCM
}
