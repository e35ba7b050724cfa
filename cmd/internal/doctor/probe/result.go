package probe

import "net/netip"

// Result is what was found of a path. What was not tried or seen says so; 0 is then no finding.
type Result struct {
	Local     netip.AddrPort `json:"local"`
	Remote    netip.AddrPort `json:"remote"`
	Reachable bool           `json:"reachable"`
	// Silence says why nothing came, if nothing did: what the network or the other host answered.
	Silence string `json:"silence,omitempty"`
	// Damaged are datagrams that came here with a wrong UDP checksum while nothing else did.
	Damaged int `json:"damaged,omitempty"`

	Forward Way `json:"forward"` // from here to there
	Back    Way `json:"back"`

	// Unasked says whether packets of the peer's own, from a port to which nothing was sent, come
	// to UDP port 4791 here. Untried says why that is not known.
	Unasked bool   `json:"unasked"`
	Untried string `json:"untried,omitempty"`

	Burst   Burst   `json:"burst"`
	RTT     RTT     `json:"rtt"`
	Goodput Goodput `json:"goodput"`
}

// Way is one direction of a path, as the receiver sees it.
type Way struct {
	ICRC     Verdict        `json:"icrc"`
	Src      netip.AddrPort `json:"src"`      // of the sender
	SeenSrc  netip.AddrPort `json:"seen_src"` // as it arrived
	Dst      netip.AddrPort `json:"dst"`
	SeenDst  netip.AddrPort `json:"seen_dst"`
	TTL      uint8          `json:"ttl"`         // 64 less the hops
	Header   bool           `json:"header_seen"` // ID and DF are known: needs CAP_NET_RAW at the receiver, and IPv4
	ID       uint16         `json:"ip_id"`       // 0 was sent
	NoDF     bool           `json:"df_cleared"`  // it was sent with DF
	ECN      Mark           `json:"ecn"`
	MTU      int            `json:"path_mtu"`  // the largest path MTU of RoCE whose packets come through
	Narrower bool           `json:"mtu_below"` // it is less than that of the interfaces
	Told     bool           `json:"mtu_told"`  // routers say when a packet is too long
}

// Mark says what becomes of a packet's traffic class.
type Mark struct {
	Tried   bool  `json:"tried"`
	ECT     bool  `json:"ect_kept"` // ECT(0) came as ECT(0), or as CE
	CE      bool  `json:"ce_kept"`
	DSCP    uint8 `json:"dscp_seen"` // of the one sent
	Sent    uint8 `json:"dscp_sent"`
	Congest int   `json:"marked"` // packets sent with ECT(0) that came with CE
}

// Burst is what becomes of many packets.
type Burst struct {
	Sent      int  `json:"sent"`
	Forward   Fate `json:"forward"`
	Back      Fate `json:"back"`
	Uncounted bool `json:"uncounted"` // the server did not say what it saw: Forward is not known
}

// Fate is what became of packets in one direction.
type Fate struct {
	Sent      int `json:"sent"`
	Lost      int `json:"lost"`        // they reached no socket
	Damaged   int `json:"damaged"`     // of those: came with a wrong UDP checksum, and the kernel dropped them
	Full      int `json:"buffer_full"` // of those: found the receive buffer full
	Reordered int `json:"reordered"`
	Duplicate int `json:"duplicate"`
	BadICRC   int `json:"bad_icrc"`
	Marked    int `json:"ce_marked"`
}

// RTT are round trip times in nanoseconds, of packets one at a time.
type RTT struct {
	Samples int   `json:"samples"`
	Min     int64 `json:"min_ns"`
	P50     int64 `json:"p50_ns"`
	P99     int64 `json:"p99_ns"`
}

// Goodput is what a window of packets carries to the server, each in a system call of its own:
// RoCE, which sends many at once, reaches more where the machine is what limits.
type Goodput struct {
	Bits    float64 `json:"bits_per_s"` // payload of RoCE that was answered
	Packets int     `json:"packets"`
	Lost    int     `json:"lost"`
	MTU     int     `json:"mtu"`
}
