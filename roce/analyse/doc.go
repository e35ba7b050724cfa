// Package analyse explains captures of RoCE v2: it follows connections packet by packet and
// finds what went wrong, why, and what the application saw of it.
//
// # Shape
//
// [New] makes an [Analyser]; [Analyser.Add] takes one [pcap.Packet] after the other, in the
// order in which they were captured, and returns a [Note] of what the packet is;
// [Analyser.Report] ends it. A [Report] has [Connection]s, with what was done on each and how fast, and
// [Finding]s. A capture in which all went well has no finding. [Read] does all of that with a
// file. [Kinds] lists what can be found, with what it means and what to do about it.
//
// # What it follows
//
// A queue pair of RC sends requests one way and answers the other way. The packets carry only
// the queue pair they go to, so two flows make a connection when an exchange of
// RDMA-CM says so, or when one answers requests of the other (the PSN tells). Each direction of
// requests is followed by itself (request.go, gaps.go, again.go, reread.go; answer.go, response.go, nak.go, silence.go): which PSNs were seen, which were
// acknowledged, which came again, and what made the requester send them again: a NAK, an RNR NAK, a
// gap in the responses to a READ, silence, or nothing, so that the network has doubled them.
// UC and UD have no answers, so only gaps and order tell (datagram.go). cm.go follows RDMA-CM.
//
// # Where the capture was taken
//
// A loss looks different on either side. The sender's side has the packet that was
// lost, and the NAK for it; the receiver's side has the gap. Some things cannot be told apart
// from one side: to the sender a lost request of one packet and its lost acknowledgement are the
// same silence. A finding then has Certain false and lists in Or what it may be
// instead. The analyser knows the side from the direction that frames are marked with (the trace
// link, tcpdump -i any, roce dump), or from [Options].Local.
//
// # Conduct
//
// Findings say what happened to packets. Options.Conduct asks for something else: which of
// the two hosts does what no right one does ([Report.Breaches]), as tests of implementations want to know. Who has lost
// a packet on purpose gets told how that was mended ([Report.Repairs]), and who was told that retries ran out, what
// was seen of both hosts meanwhile ([Report.Exhausted]).
//
// # Bounds
//
// Any packets may come, in any order. Time and memory are linear and bounded: what is kept
// of a connection is its window of outstanding packets, and there are limits to
// connections, records, and findings ([Options]). What was left out is counted in the report. Each of
// Conduct.Losses costs a look at each packet.
//
// # Concurrency
//
// An Analyser belongs to one goroutine. There is no I/O, clock or randomness.
package analyse
