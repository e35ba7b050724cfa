package micro

// metric is a line of the table of times.
type metric struct {
	name string
	op   string // of the row
	key  string // of the samples
	of   side   // whose it is
}

var metrics = []metric{
	{"ACK: from a WRITE of 64 bytes", "ACK latency", "ack_made_us", responder},
	{"NAK: from the packet behind the gap, SEND", "NAK latency SEND", "nak_made_us", responder},
	{"NAK: WRITE", "NAK latency WRITE", "nak_made_us", responder},
	{"NAK: READ request", "NAK latency READ", "nak_made_us", responder},
	{"sent again: from the NAK, SEND", "NAK latency SEND", "nak_to_resend_us", requester},
	{"sent again: WRITE", "NAK latency WRITE", "nak_to_resend_us", requester},
	{"sent again: READ request", "NAK latency READ", "nak_to_resend_us", requester},
	{"READ recovery: from the response behind the gap to the new request", "READ recovery",
		"gap_to_request_us", requester},
	{"CNP: from the first packet with CE", "CNP for CE", "cnp_made_us", responder},
	{"CNP gap: between two", "CNP for CE", "cnp_gap_us", responder},
}

// counts are the lines of the table of numbers of packets.
var counts = []metric{
	{"ACKs for 48 WRITEs of one packet, of which all ask", "ACK coalescing", "acks", responder},
	{"of 48 WRITEs of one packet, those that ask for an ACK", "ACK coalescing", "acks_asked_for", requester},
	{"CNPs for a WRITE of 256 packets, all with CE", "CNP for CE", "cnps", responder},
	{"transmissions of a packet that is always lost, retry_cnt 6", "timeout series", "transmissions", requester},
}

// victims are the lines of the table of noisy neighbours: beside some that lose nothing, and beside
// some that do.
var victims = []struct{ name, quiet, lossy string }{
	{"WRITE of 64 bytes, to its ACK", "victim_beside_quiet_us", "victim_beside_lossy_us"},
	{"goodput of a WRITE of 64 KiB, MB/s", "victim_beside_quiet_MBps", "victim_beside_lossy_MBps"},
}

const noiseOp = "noisy neighbour"

// counters are the lines of the table of counters.
var counters = []struct {
	name, key string
	of        side
}{
	{"sequence NAKs sent", "seq_naks_sent", responder},
	{"sequence NAKs received", "seq_naks_received", requester},
	{"requests out of sequence", "out_of_sequence", responder},
	{"duplicate requests", "duplicates", responder},
	{"implied NAKs", "implied_naks", requester},
	{"ICRC errors", "icrc_errors", responder},
	{"RNR NAKs sent", "rnr_naks_sent", responder},
	{"RNR NAKs received", "rnr_naks_received", requester},
	{"packets with CE", "ce_packets", responder},
	{"CNPs sent", "cnps_sent", responder},
	{"CNPs handled", "cnps_handled", requester},
}

const countersOp = "counters of all faults"
