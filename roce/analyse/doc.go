// Package analyse explains captures of RoCE v2: it follows connections packet by packet and finds
// what went wrong, why, and how the application was affected.
//
// # Shape
//
// [New] makes an [Analyser]. [Analyser.Add] takes one [pcap.Packet] after the other, in the order
// of their capture, and returns a [Note] that classifies the packet. [Analyser.Report] ends the
// analysis. A [Report] has [Connection]s, with the operations on each and their speed, and
// [Finding]s. A capture in which all went well has no finding. [Read] does all of that with a file.
// [Kinds] lists the possible findings, with their meaning and what to do about them.
//
// # What it follows
//
// A queue pair of RC sends requests one way and answers the other way. The packets carry only the
// queue pair they go to. So two flows make a connection when an exchange of RDMA-CM says so, or
// when one answers requests of the other (the PSN tells). Each direction of requests is followed
// separately (request.go, gaps.go, again.go, reread.go; answer.go, response.go, nak.go,
// silence.go): which PSNs were seen, which were acknowledged, which were repeated, and what made
// the requester repeat them: a NAK, an RNR NAK, a gap in the responses to a READ, or silence. If
// nothing did, the network has duplicated them. UC and UD have no answers, so only gaps and order
// tell (datagram.go). cm.go follows RDMA-CM.
//
// # Where the capture was taken
//
// A loss looks different on either side. The sender's side has the packet that was lost, and the
// NAK for it; the receiver's side has the gap. Some causes cannot be distinguished from one side:
// to the sender, the loss of a one-packet request and the loss of its acknowledgement are the same
// silence. A finding then has Certain false, and Or lists the alternatives. The analyser knows the
// side from the direction that frames are marked with (the trace link, tcpdump -i any, roce dump),
// or from [Options].Local.
//
// # Conduct
//
// Findings say what happened to packets. Options.Conduct asks for something else, for tests of
// implementations: what either host does that a correct one never does ([Report.Breaches]). For
// packets that a test has lost on purpose, [Report.Repairs] says how the loss was mended. For a
// connection whose retries ran out, [Report.Exhausted] says what was seen of both hosts meanwhile.
//
// # Bounds
//
// Any packets may come, in any order. Time and memory are linear and bounded: for each connection
// the analyser keeps the window of outstanding packets, and there are limits to connections,
// records and findings ([Options]). The report counts what was left out. Each of Conduct.Losses
// costs a look at each packet.
//
// # Concurrency
//
// An Analyser belongs to one goroutine. There is no I/O, clock or randomness.
package analyse
